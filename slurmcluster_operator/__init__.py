"""Slurm on Kubernetes: one ``SlurmCluster`` resource becomes a working Slurm."""
