"""How the operator talks to Kubernetes: raw JSON over ``kubernetes.aio``."""
