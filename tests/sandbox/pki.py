# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox's own certificate authority, its certificates, and kubeconfigs that carry them.

Elliptic curve keys (P-256): all certificates of a cluster take a few milliseconds.
"""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """A private key and its certificate, both PEM."""

    key: bytes
    certificate: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.crt and NAME.key (0600); returns both paths."""
        return write_secret(directory / f"{name}.crt", self.certificate), write_secret(
            directory / f"{name}.key", self.key
        )


@dataclass(frozen=True)
class Authority:
    """Signs certificates of servers and clients."""

    pair: KeyPair
    _key: ec.EllipticCurvePrivateKey
    _name: x509.Name

    @classmethod
    def create(cls, name: str) -> Authority:
        """A new self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, ())
        builder = _builder(subject, subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = _key_usage(signs_certificates=True)
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        return cls(KeyPair(_private(key), certificate.public_bytes(serialization.Encoding.PEM)), key, subject)

    def client(self, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """A client certificate: Kubernetes takes the user from the common name, the groups from the organisations."""
        return self._issue(_subject(user, groups), [ExtendedKeyUsageOID.CLIENT_AUTH], ())

    def server(self, name: str, addresses: tuple[IPv4Address, ...], names: tuple[str, ...] = ()) -> KeyPair:
        """A server certificate for these addresses and DNS names."""
        alternatives = (*map(x509.IPAddress, addresses), *map(x509.DNSName, names))
        return self._issue(_subject(name, ()), [ExtendedKeyUsageOID.SERVER_AUTH], alternatives)

    def _issue(
        self, subject: x509.Name, usages: list[x509.ObjectIdentifier], names: tuple[x509.GeneralName, ...]
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer_key, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(_private(key), certificate.public_bytes(serialization.Encoding.PEM))


def signing_key() -> tuple[bytes, bytes]:
    """Private and public key, PEM, for service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _private(key), public


def kubeconfig(cluster: str, user: str, server: str, authority: bytes, client: KeyPair) -> str:
    """A kubeconfig that needs no other file."""

    def data(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": data(authority)}}],
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": data(client.certificate), "client-key-data": data(client.key)},
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return yaml.safe_dump(content, sort_keys=False)


def write_secret(path: Path, content: bytes | str) -> Path:
    """Write a file that only its owner can read, at no moment otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _subject(name: str, groups: tuple[str, ...]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
