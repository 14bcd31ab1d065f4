"""From a resolved cluster to Kubernetes objects and Slurm's configuration. Pure."""
