package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const provisionerName = "localkube.dev/folder"

// folderProvisioner makes one folder a volume. Every node sees the same file system, so that a volume can be
// mounted on several nodes at once. It hands out "local" volumes, not hostPath ones, because the kubelet gives
// those to the pod's fsGroup as it does with a cloud disk.
type folderProvisioner struct{ root string }

func (p folderProvisioner) Provision(
	_ context.Context, options controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if mode := options.PVC.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		return nil, controller.ProvisioningFinished, errors.New("block volumes are not offered, only file systems")
	}
	path := filepath.Join(p.root, options.PVName)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, controller.ProvisioningFinished, err
	}
	return volume(options, path), controller.ProvisioningFinished, nil
}

func (p folderProvisioner) Delete(_ context.Context, pv *corev1.PersistentVolume) error {
	if pv.Spec.Local == nil || pv.Spec.Local.Path != filepath.Join(p.root, pv.Name) {
		return fmt.Errorf("%s does not lie in %s: it is left alone", pv.Name, p.root)
	}
	return os.RemoveAll(pv.Spec.Local.Path)
}

func volume(options controller.ProvisionOptions, path string) *corev1.PersistentVolume {
	everyNode := corev1.NodeSelectorRequirement{
		Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"},
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			MountOptions:                  options.StorageClass.MountOptions,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{everyNode}},
				},
			}},
		},
	}
}
