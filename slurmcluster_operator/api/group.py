"""What the resource is called in Kubernetes' API."""

from __future__ import annotations

from typing import Final

GROUP: Final = "slurmcluster.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "SlurmCluster"
PLURAL: Final = "slurmclusters"
API_VERSION: Final = f"{GROUP}/{VERSION}"
