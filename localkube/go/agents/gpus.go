package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	pollInterval = 500 * time.Millisecond
	callTimeout  = 5 * time.Second
)

// gpuPlugin is a device plugin whose GPUs are character device files. A GPU whose file is gone is unhealthy, which
// is how a test takes one away.
type gpuPlugin struct {
	plugin.UnimplementedDevicePluginServer
	gpus []gpu
}

type gpu struct{ id, device string }

func runGPUs(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gpus", flag.ContinueOnError)
	folder := flags.String("plugins", "", "the kubelet's device plugin folder")
	node := flags.String("node", "", "name of the node, from which the GPUs' identities are made")
	resource := flags.String("resource", "nvidia.com/gpu", "name of the extended resource")
	count := flags.Int("count", 0, "number of GPUs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := &gpuPlugin{gpus: inventory(*node, *count)}
	socket := filepath.Join(*folder, strings.ReplaceAll(*resource, "/", "-")+".sock")
	for ctx.Err() == nil {
		if err := server.serve(ctx, *folder, socket, *resource); err != nil {
			fmt.Fprintln(os.Stderr, "gpus:", err)
			sleep(ctx, pollInterval)
		}
	}
	return nil
}

func inventory(node string, count int) []gpu {
	gpus := make([]gpu, count)
	for i := range gpus {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, i))
		id := fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
		gpus[i] = gpu{id: id, device: fmt.Sprintf("/dev/nvidia%d", i)}
	}
	return gpus
}

// serve registers with the kubelet and answers it until the kubelet starts anew, which removes our socket.
func (p *gpuPlugin) serve(ctx context.Context, folder, socket, resource string) error {
	kubelet := filepath.Join(folder, "kubelet.sock")
	if _, err := os.Stat(kubelet); err != nil {
		sleep(ctx, pollInterval)
		return nil
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, kubelet, filepath.Base(socket), resource); err != nil {
		return err
	}
	fmt.Println("registered", len(p.gpus), resource)
	for ctx.Err() == nil && exists(socket) {
		sleep(ctx, pollInterval)
	}
	return nil
}

func register(ctx context.Context, kubelet, endpoint, resource string) error {
	connection, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = plugin.NewRegistrationClient(connection).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: endpoint, ResourceName: resource,
	})
	return err
}

func (p *gpuPlugin) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (p *gpuPlugin) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	sent := ""
	for stream.Context().Err() == nil {
		if devices := p.devices(); fmt.Sprint(devices) != sent {
			if err := stream.Send(&plugin.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			sent = fmt.Sprint(devices)
		}
		sleep(stream.Context(), pollInterval)
	}
	return nil
}

func (p *gpuPlugin) devices() []*plugin.Device {
	devices := make([]*plugin.Device, len(p.gpus))
	for i, one := range p.gpus {
		health := plugin.Healthy
		if !exists(one.device) {
			health = plugin.Unhealthy
		}
		devices[i] = &plugin.Device{ID: one.id, Health: health}
	}
	return devices
}

// Allocate gives a container the device files, and the variable that NVIDIA's plugin sets.
func (p *gpuPlugin) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	response := &plugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		one, err := p.allocate(container.DevicesIds)
		if err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, one)
	}
	return response, nil
}

func (p *gpuPlugin) allocate(ids []string) (*plugin.ContainerAllocateResponse, error) {
	devices := map[string]string{}
	for _, one := range p.gpus {
		devices[one.id] = one.device
	}
	var specs []*plugin.DeviceSpec
	for _, id := range ids {
		device, known := devices[id]
		if !known {
			return nil, fmt.Errorf("no GPU has the identity %s", id)
		}
		specs = append(specs, &plugin.DeviceSpec{ContainerPath: device, HostPath: device, Permissions: "rw"})
	}
	return &plugin.ContainerAllocateResponse{
		Envs:    map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(ids, ",")},
		Devices: specs,
	}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func sleep(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
