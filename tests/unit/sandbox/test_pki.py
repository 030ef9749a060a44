# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificates verify against the sandbox's authority and nothing else, and secrets are nobody else's to read."""

from __future__ import annotations

import base64
import datetime
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tests.sandbox import pki

HOST = IPv4Address("10.88.0.1")


@pytest.fixture(scope="module")
def authority() -> pki.Authority:
    return pki.Authority.create("sandbox CA")


def load(pair: pki.KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def builder(authority: pki.Authority) -> PolicyBuilder:
    return PolicyBuilder().store(Store([load(authority.pair)])).time(datetime.datetime.now(datetime.UTC))


def test_a_server_is_known_by_its_addresses_and_names(authority: pki.Authority) -> None:
    certificate = load(authority.server("kube-apiserver", (HOST,), ("localhost",)))
    for subject in (x509.IPAddress(HOST), x509.DNSName("localhost")):
        builder(authority).build_server_verifier(subject).verify(certificate, [])
    with pytest.raises(VerificationError):
        builder(authority).build_server_verifier(x509.IPAddress(IPv4Address("10.88.0.2"))).verify(certificate, [])


def test_another_sandboxs_server_is_refused(authority: pki.Authority) -> None:
    stranger = load(pki.Authority.create("sandbox CA").server("kube-apiserver", (HOST,)))
    with pytest.raises(VerificationError):
        builder(authority).build_server_verifier(x509.IPAddress(HOST)).verify(stranger, [])


def test_a_client_carries_user_and_groups_and_can_not_be_a_server(authority: pki.Authority) -> None:
    certificate = load(authority.client("system:node:node-a", ("system:nodes",)))
    names = {
        oid: [a.value for a in certificate.subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    assert names == {NameOID.COMMON_NAME: ["system:node:node-a"], NameOID.ORGANIZATION_NAME: ["system:nodes"]}
    with pytest.raises(VerificationError):
        builder(authority).build_server_verifier(x509.DNSName("localhost")).verify(certificate, [])


def test_a_kubeconfig_needs_no_other_file(authority: pki.Authority) -> None:
    client = authority.client("kubernetes-admin", ("system:masters",))
    content = yaml.safe_load(
        pki.kubeconfig("sandbox", "admin", f"https://{HOST}:6443", authority.pair.certificate, client)
    )
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority.pair.certificate
    assert base64.b64decode(user["client-key-data"]) == client.key
    assert content["current-context"] == "sandbox"
    assert "insecure-skip-tls-verify" not in cluster


def test_secrets_are_the_owners_alone(tmp_path: Path) -> None:
    path = pki.write_secret(tmp_path / "new" / "key", "old")
    path.chmod(0o644)
    assert pki.write_secret(path, b"new").read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_service_account_keys_belong_together() -> None:
    private, public = pki.signing_key()
    assert b"PRIVATE KEY" in private
    assert load_pem_public_key(public)
