"""The soak: Slurm and Kubernetes work compete for the same nodes for a long time, while parts are killed at random."""
