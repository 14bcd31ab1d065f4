"""Certificates and kubeconfigs."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localkube import plan
from localkube.plan import Plan
from localkube.shell import run

_DAYS = "3650"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# openssl adds nothing of its own when its configuration holds nothing.
_CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"


@dataclass(frozen=True)
class Certificate:
    """One certificate to be made."""

    file: str
    subject: str
    names: str = "DNS:localkube"
    authority: str = "ca"


def certificates(cluster: Plan) -> list[Certificate]:
    """Return every certificate of a cluster; the subject is the Kubernetes user and group."""
    instance = cluster.instance
    api_names = (
        f"IP:{instance.api_address},IP:127.0.0.1,IP:{instance.service_api_address},DNS:localhost,DNS:kubernetes,"
        f"DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.{plan.CLUSTER_DOMAIN}"
    )
    return [
        Certificate("kube-apiserver", "/CN=kube-apiserver", api_names),
        Certificate("admin", "/O=system:masters/CN=localkube-admin"),
        Certificate("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
        Certificate("kube-controller-manager", "/CN=system:kube-controller-manager"),
        Certificate("kube-scheduler", "/CN=system:kube-scheduler"),
        Certificate("kube-proxy", "/CN=system:kube-proxy"),
        Certificate("front-proxy-client", "/CN=front-proxy-client", authority="front-proxy-ca"),
        *(
            Certificate(node.name, f"/O=system:nodes/CN=system:node:{node.name}", f"DNS:{node.name},IP:{node.address}")
            for node in cluster.nodes
        ),
    ]


def create(folder: Path, cluster: Plan) -> None:
    """Make all keys and certificates."""
    folder.mkdir(parents=True, mode=0o700)
    (folder / "openssl.cnf").write_text(_CONFIGURATION)
    for authority in ("ca", "front-proxy-ca"):
        extensions = (
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=keyCertSign,digitalSignature",
        )
        run([*_request(folder, authority, f"/CN=localkube-{authority}"), *extensions])
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda certificate: _sign(folder, certificate), certificates(cluster)))
    run(["openssl", "genrsa", "-out", folder / "service-accounts.key", "2048"])
    run(["openssl", "rsa", "-in", folder / "service-accounts.key", "-pubout", "-out", folder / "service-accounts.pub"])


def kubeconfig(folder: Path, user: str, server: str) -> str:
    """Return a kubeconfig that holds its certificates, so that the file can be copied."""

    def content(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    credentials = {"client-certificate-data": content(f"{user}.crt"), "client-key-data": content(f"{user}.key")}
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "localkube", "cluster": {"server": server, "certificate-authority-data": content("ca.crt")}}
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "localkube", "context": {"cluster": "localkube", "user": user}}],
        "current-context": "localkube",
    }
    return json.dumps(value, indent=1)


def _sign(folder: Path, certificate: Certificate) -> None:
    authority = ("-CA", folder / f"{certificate.authority}.crt", "-CAkey", folder / f"{certificate.authority}.key")
    extensions = (
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "extendedKeyUsage=serverAuth,clientAuth"),
        *("-addext", f"subjectAltName={certificate.names}"),
    )
    run([*_request(folder, certificate.file, certificate.subject), *authority, *extensions])


def _request(folder: Path, file: str, subject: str) -> list[str | Path]:
    target = ("-keyout", folder / f"{file}.key", "-out", folder / f"{file}.crt", "-days", _DAYS)
    return ["openssl", "req", "-x509", "-config", folder / "openssl.cnf", *_CURVE, "-subj", subject, *target]
