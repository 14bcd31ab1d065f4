"""The container images and the builder that makes them without Docker and without a registry."""
