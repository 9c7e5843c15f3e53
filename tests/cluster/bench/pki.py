"""Certificates and kubeconfigs of a bench: one authority, one certificate per component, gone with the bench."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cluster.bench import layout
from tests.cluster.bench.hardware import Node
from tests.cluster.bench.layout import Layout

VALID_FOR = datetime.timedelta(days=30)
# Component: user name and group that Kubernetes' own roles are bound to.
USERS = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
}


@dataclass(frozen=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def write(files: Layout, nodes: Sequence[Node]) -> None:
    """Write `pki/` and `kubeconfig/`: everything that the control plane and the nodes authenticate with."""
    files.pki.mkdir(parents=True, mode=0o700)
    authority = _authority(files.pki / "ca.crt")
    service = "kubernetes.default.svc"
    names = ["kubernetes", "kubernetes.default", service, f"{service}.{layout.CLUSTER_DOMAIN}", "localhost"]
    addresses = ["127.0.0.1", layout.CONTROL_PLANE_IP, layout.API_SERVICE_IP]
    _issue(authority, files.pki / "kube-apiserver", "kube-apiserver", names=names, addresses=addresses)
    _issue(authority, files.pki / "kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    for user, (name, group) in USERS.items():
        _issue(authority, files.pki / user, name, group)
        _kubeconfig(files, user)
    for node in nodes:
        address = layout.node_ip(node.index)
        _issue(
            authority,
            files.pki / node.name,
            f"system:node:{node.name}",
            "system:nodes",
            names=[node.name],
            addresses=[address],
        )
        _kubeconfig(files, node.name)
    signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(files.pki / "service-account.key", signing)
    public = signing.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (files.pki / "service-account.pub").write_bytes(public)


def _authority(path: Path) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return _Authority(key, certificate)


def _issue(
    authority: _Authority,
    path: Path,
    user: str,
    group: str = "",
    *,
    names: Iterable[str] = (),
    addresses: Iterable[str] = (),
) -> None:
    """Write `path`.key and `path`.crt for a user, or for a server with these names and addresses, or for both."""
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    builder = _builder(subject, authority.certificate.subject, key).add_extension(purposes, critical=False)
    hosts: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    hosts += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    path.with_name(f"{path.name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(path.with_name(f"{path.name}.key"), key)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID_FOR)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)


def _kubeconfig(files: Layout, user: str) -> None:
    pki = files.pki
    cluster = {"server": layout.API_SERVER, "certificate-authority": str(pki / "ca.crt")}
    certificate = {"client-certificate": str(pki / f"{user}.crt"), "client-key": str(pki / f"{user}.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": user, "user": certificate}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": user}}],
        "current-context": "bench",
    }
    path = files.kubeconfig(user)
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
