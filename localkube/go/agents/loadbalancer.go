package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const resync = 30 * time.Second

// addressPool is the range that LoadBalancer Services draw from. kube-proxy on the host and on every node serves
// an address as soon as it stands in the Service's status, so that no interface has to carry it.
type addressPool struct{ first, last netip.Addr }

func (p addressPool) contains(address netip.Addr) bool {
	return address.IsValid() && p.first.Compare(address) <= 0 && address.Compare(p.last) <= 0
}

func (p addressPool) free(used map[netip.Addr]bool) (netip.Addr, bool) {
	for address := p.first; p.contains(address); address = address.Next() {
		if !used[address] {
			return address, true
		}
	}
	return netip.Addr{}, false
}

// serveLoadBalancers looks at all Services whenever one changes: there are few, and nothing can be missed.
func serveLoadBalancers(ctx context.Context, client kubernetes.Interface, pool addressPool) error {
	factory := informers.NewSharedInformerFactory(client, resync)
	services := factory.Core().V1().Services()
	wake := make(chan struct{}, 1)
	notify := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	if _, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), services.Informer().HasSynced) {
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			if err := assignAll(ctx, client, services.Lister(), pool); err != nil {
				fmt.Fprintln(os.Stderr, "load balancers:", err)
				time.AfterFunc(time.Second, notify)
			}
		}
	}
}

func assignAll(
	ctx context.Context, client kubernetes.Interface, lister corelisters.ServiceLister, pool addressPool,
) error {
	services, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	var failures []error
	for _, service := range assign(services, pool) {
		_, err := client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{})
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// assign returns the Services whose status has to change, as copies with the new status.
func assign(services []*corev1.Service, pool addressPool) []*corev1.Service {
	sort.Slice(services, func(i, j int) bool {
		return services[i].CreationTimestamp.Before(&services[j].CreationTimestamp)
	})
	used := map[netip.Addr]bool{}
	for _, service := range services {
		if current := currentAddress(service); wanted(service) && current.IsValid() {
			used[current] = true
		}
	}
	var changed []*corev1.Service
	for _, service := range services {
		if next, ok := next(service, pool, used); ok {
			changed = append(changed, next)
		}
	}
	return changed
}

func next(service *corev1.Service, pool addressPool, used map[netip.Addr]bool) (*corev1.Service, bool) {
	current := currentAddress(service)
	if !wanted(service) {
		if service.Spec.LoadBalancerClass != nil || !pool.contains(current) {
			return nil, false
		}
		return withIngress(service, nil), true
	}
	if current.IsValid() {
		return nil, false
	}
	address, ok := choose(service, pool, used)
	if !ok {
		return nil, false
	}
	used[address] = true
	mode := corev1.LoadBalancerIPModeVIP
	return withIngress(service, []corev1.LoadBalancerIngress{{IP: address.String(), IPMode: &mode}}), true
}

func choose(service *corev1.Service, pool addressPool, used map[netip.Addr]bool) (netip.Addr, bool) {
	asked, err := netip.ParseAddr(service.Spec.LoadBalancerIP)
	if err != nil {
		return pool.free(used)
	}
	return asked, pool.contains(asked) && !used[asked]
}

func wanted(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil &&
		service.DeletionTimestamp == nil
}

func currentAddress(service *corev1.Service) netip.Addr {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if address, err := netip.ParseAddr(ingress.IP); err == nil {
			return address
		}
	}
	return netip.Addr{}
}

func withIngress(service *corev1.Service, ingress []corev1.LoadBalancerIngress) *corev1.Service {
	updated := service.DeepCopy()
	updated.Status.LoadBalancer.Ingress = ingress
	return updated
}
