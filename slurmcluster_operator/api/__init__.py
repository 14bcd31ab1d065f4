"""The ``SlurmCluster`` resource: models, rules and the CRD made from them. Pure."""
