"""How the operator talks to Slurm: slurmrestd over HTTP, with tokens of its own."""
