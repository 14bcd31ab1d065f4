"""A real Kubernetes on one Linux machine, without Docker: `python3 -m localkube up`."""
