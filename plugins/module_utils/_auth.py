# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From connection options to a pool of connections that carry credentials. Private to this collection.

The kubernetes library is used for this only: it knows the kinds of credentials, writes certificate data to files and
refreshes tokens. Same in its versions 35 to 37, and therefore used: ``Configuration.auth_settings()["BearerToken"]``
and ``ApiClient.rest_client.pool_manager``.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Tuple
from urllib.parse import urlsplit

from ansible_collections.lingjun.rdma.plugins.module_utils import _exec_plugin, _kubeconfig
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import ConnectionOptionsError

CONNECTIONS = 8  # more only raise latency (measured on a real API server)
# Option -> environment variables, the first that is set counts; those of kubernetes.core.
ENVIRONMENT = {
    "kubeconfig": ("K8S_AUTH_KUBECONFIG",),
    "context": ("K8S_AUTH_CONTEXT",),
    "host": ("K8S_AUTH_HOST",),
    "api_key": ("K8S_AUTH_API_KEY",),
    "username": ("K8S_AUTH_USERNAME",),
    "password": ("K8S_AUTH_PASSWORD",),
    "validate_certs": ("K8S_AUTH_VALIDATE_CERTS", "K8S_AUTH_VERIFY_SSL"),
    "ca_cert": ("K8S_AUTH_CA_CERT", "K8S_AUTH_SSL_CA_CERT"),
    "client_cert": ("K8S_AUTH_CLIENT_CERT", "K8S_AUTH_CERT_FILE"),
    "client_key": ("K8S_AUTH_CLIENT_KEY", "K8S_AUTH_KEY_FILE"),
    "proxy": ("K8S_AUTH_PROXY",),
    "no_proxy": ("K8S_AUTH_NO_PROXY",),
    "persist_config": ("K8S_AUTH_PERSIST_CONFIG",),
    "impersonate_user": ("K8S_AUTH_IMPERSONATE_USER",),
    "impersonate_groups": ("K8S_AUTH_IMPERSONATE_GROUPS",),
}
_PROXY_HEADERS = ("proxy_basic_auth", "basic_auth", "user_agent")
_FALSE = ("0", "false", "no", "off", "f", "n")
# Keys of a kubeconfig whose values may be shown.
_HARMLESS = frozenset(
    (
        "apiVersion",
        "kind",
        "name",
        "cluster",
        "user",
        "namespace",
        "server",
        "current-context",
        "certificate-authority",
        "tls-server-name",
        "proxy-url",
        "client-certificate",
        "client-key",
        "tokenFile",
        "command",
        "interactiveMode",
        "installHint",
        "preferences",
    )
)


@dataclass(frozen=True)
class Session:
    """Credentials and connections as they are now."""

    url: str  # of the API server, without a slash at the end
    pool: Any  # urllib3.PoolManager; safe to share between threads
    headers: Callable[[], List[Tuple[str, str]]]  # asked for each request, as a token may have been refreshed
    renewable: bool  # False: connecting anew would give the same credentials


def resolve(params: Mapping[str, Any], environ: Mapping[str, str]) -> Dict[str, Any]:
    """The connection options, completed from the environment; unset ones are None."""
    options: Dict[str, Any] = {}
    for name, variables in ENVIRONMENT.items():
        value = params.get(name)
        if value is None:
            value = next((environ[variable] for variable in variables if environ.get(variable)), None)
            if value is not None and name in ("validate_certs", "persist_config"):
                options[name] = value.lower() not in _FALSE
                continue
            if value is not None and name == "impersonate_groups":
                options[name] = [group for group in value.split(",") if group]
                continue
        options[name] = value
    headers = params.get("proxy_headers") or {
        name: environ.get(f"K8S_AUTH_PROXY_HEADERS_{name.upper()}") or None for name in _PROXY_HEADERS
    }
    options["proxy_headers"] = {name: value for name, value in headers.items() if value is not None} or None
    return options


def connect(options: Mapping[str, Any], timeout: float) -> Session:
    """A session for the resolved ``options``; nothing is sent yet. ``timeout`` (s) bounds an exec plugin.

    The order is that of kubernetes.core: a host with credentials, else kubeconfig or context, else the service account
    of the pod that we run in, else the default kubeconfig. Single options override what these give.
    Raises ConnectionOptionsError.
    """
    try:
        import urllib3
        from kubernetes import client, config
    except ImportError as error:
        raise ConnectionOptionsError(
            f"The Python library kubernetes is missing ({error}); install it for the Python that runs the module: pip"
            " install kubernetes"
        ) from error

    configuration = client.Configuration()
    try:
        renewable = _load(configuration, config, options, timeout)
    except (config.ConfigException, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        # What is left after our own checks of the kubeconfig: a certificate that is no base64, an OIDC provider, ...
        raise ConnectionOptionsError(f"The credentials can't be loaded: {error or type(error).__name__}.") from error
    _override(configuration, options, urllib3)
    configuration.retries = False  # we retry, with a cap
    configuration.connection_pool_maxsize = CONNECTIONS
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    pool = client.ApiClient(configuration).rest_client.pool_manager
    return Session(configuration.host.rstrip("/"), pool, lambda: _headers(configuration, options), renewable)


def _load(configuration: Any, config: Any, options: Mapping[str, Any], timeout: float) -> bool:
    """Fill ``configuration`` from where the options point to; True when doing it again can bring other credentials."""
    credentials = (
        options["api_key"]
        or (options["username"] and options["password"])
        or (options["client_cert"] and options["client_key"])
    )
    if options["host"] and credentials:
        return False
    if not options["kubeconfig"] and not options["context"]:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            pass  # we don't run in a pod
        else:
            return True
    given = options["kubeconfig"] or os.environ.get("KUBECONFIG") or os.path.join("~", ".kube", "config")
    if isinstance(given, dict):
        merged, source = _kubeconfig.check(given, "The option kubeconfig"), "The option kubeconfig"
    elif isinstance(given, str):
        merged, source = _kubeconfig.read(given.split(os.pathsep)), f"The kubeconfig {given}"
    else:
        raise ConnectionOptionsError(
            f"The option kubeconfig must be a path or a dictionary, not a {type(given).__name__}."
        )
    cluster, user = _kubeconfig.select(merged, options["context"], source)
    _checked(cluster["server"], f"{source}: server")
    renewable = bool(user.get("exec") or user.get("auth-provider") or user.get("tokenFile"))
    if user.get("exec") and not (user.get("token") or user.get("tokenFile")):
        user = _exec_plugin.credentials(user["exec"], cluster, timeout)
    if options["persist_config"] and user.get("auth-provider") and isinstance(given, str):
        config.load_kube_config(given, options["context"], client_configuration=configuration, persist_config=True)
        return renewable
    single = {
        "current-context": "used",
        "contexts": [{"name": "used", "context": {"cluster": "used", "user": "used"}}],
        "clusters": [{"name": "used", "cluster": cluster}],
        "users": [{"name": "used", "user": user}],
    }
    config.load_kube_config_from_dict(single, client_configuration=configuration, persist_config=False)
    return renewable


def _override(configuration: Any, options: Mapping[str, Any], urllib3: Any) -> None:
    if options["host"]:
        configuration.host = _checked(options["host"], "The option host")
    if options["api_key"]:
        configuration.api_key = {"authorization": f"Bearer {options['api_key']}"}
        configuration.refresh_api_key_hook = None
    for option, field in (("ca_cert", "ssl_ca_cert"), ("client_cert", "cert_file"), ("client_key", "key_file")):
        path = options[option]
        if path:
            if not os.path.isfile(path):
                raise ConnectionOptionsError(f"The option {option} names {path}, which is no file.")
            setattr(configuration, field, path)
    if options["validate_certs"] is not None:
        configuration.verify_ssl = options["validate_certs"]
    if options["proxy"]:
        configuration.proxy = options["proxy"]
    # Version 35 takes the proxy from the environment, but not the exceptions to it.
    no_proxy = options["no_proxy"] or os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if no_proxy:
        configuration.no_proxy = no_proxy
    if options["proxy_headers"]:
        configuration.proxy_headers = urllib3.util.make_headers(**options["proxy_headers"])


def _checked(url: Any, what: str) -> str:
    """The URL of an API server without a slash at the end."""
    try:
        parts = urlsplit(str(url))
        good = (
            parts.scheme in ("https", "http") and bool(parts.hostname) and " " not in parts.netloc and parts.port != 0
        )
    except ValueError:
        good = False
    if not good:
        raise ConnectionOptionsError(f"{what} is {url!r}; write a URL like https://api.example.com:6443.")
    return str(url).rstrip("/")


def _headers(configuration: Any, options: Mapping[str, Any]) -> List[Tuple[str, str]]:
    headers = []
    token = (configuration.auth_settings().get("BearerToken") or {}).get("value")
    if token:
        headers.append(("authorization", token))
    elif options["username"] and options["password"]:
        pair = f"{options['username']}:{options['password']}".encode()
        headers.append(("authorization", "Basic " + base64.b64encode(pair).decode()))
    if options["impersonate_user"]:
        headers.append(("Impersonate-User", options["impersonate_user"]))
    headers += [("Impersonate-Group", group) for group in options["impersonate_groups"] or []]
    return headers


def secrets(value: Any, harmless: bool = False) -> List[str]:
    """The texts in a kubeconfig dictionary that must not be shown: all but names and addresses."""
    if isinstance(value, Mapping):
        return [text for key, item in value.items() for text in secrets(item, key in _HARMLESS)]
    if isinstance(value, list):
        return [text for item in value for text in secrets(item, harmless)]
    return [value] if isinstance(value, str) and value and not harmless else []
