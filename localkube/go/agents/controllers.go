package main

import (
	"context"
	"flag"
	"net/netip"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// runControllers serves storage claims and LoadBalancer Services until ctx ends.
func runControllers(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("controllers", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig file of an administrator")
	volumes := flags.String("volumes", "", "folder that holds one folder a volume")
	first := flags.String("first-address", "", "first address for LoadBalancer Services")
	last := flags.String("last-address", "", "last address for LoadBalancer Services")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pool, err := parsePool(*first, *last)
	if err != nil {
		return err
	}
	client, err := newClient(*kubeconfig)
	if err != nil {
		return err
	}
	provisioning := controller.NewProvisionController(ctx, client, provisionerName, folderProvisioner{root: *volumes},
		controller.LeaderElection(false), controller.Threadiness(2))
	go provisioning.Run(ctx)
	return serveLoadBalancers(ctx, client, pool)
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	return kubernetes.NewForConfig(config)
}

func parsePool(first, last string) (addressPool, error) {
	from, err := netip.ParseAddr(first)
	if err != nil {
		return addressPool{}, err
	}
	to, err := netip.ParseAddr(last)
	return addressPool{first: from, last: to}, err
}
