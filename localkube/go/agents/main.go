// Command localkube-agents holds what a cloud or a data centre gives a cluster and a bare Kubernetes lacks:
// storage and load-balancer addresses ("controllers"), and GPUs ("gpus", one process a node).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "localkube-agents:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a command: controllers or gpus")
	}
	switch args[0] {
	case "controllers":
		return runControllers(ctx, args[1:])
	case "gpus":
		return runGPUs(ctx, args[1:])
	}
	return fmt.Errorf("unknown command %q: want controllers or gpus", args[0])
}
