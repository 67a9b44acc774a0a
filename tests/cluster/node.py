"""One node with its control plane, in namespaces of its own: processes, network, mounts. It leaves nothing behind.

      client 10.30.0.2 ──── 10.30.0.1 node ──── pods 10.40.0.0/24
                            └ 10.50.0.1 what the load balancer's address would be

The client is another network namespace, so that what it sends reaches Services as a stranger's packets do. There is no
way out of either: what is fetched and built is fetched and built before.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509

from tests.cluster.images import PAUSE, archives
from tests.cluster.programs import CACHE
from tests.helm.tools import kubectl
from tests.unit.edge.certificates import Authority

NODE, CLIENT, BALANCER = "10.30.0.1", "10.30.0.2", "10.50.0.1"
PODS, SERVICES, API_SERVICE = "10.40.0.0/24", "10.96.0.0/16", "10.96.0.1"
NAMESPACE = "mesh"
TOKEN = "one-node"
VOLUMES = 12
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer", "blkio", "systemd", "hugetlb")
GROUP = "meshgate-cluster"
"""Of all the pods, in each hierarchy of control groups."""
GROUPS = Path("/sys/fs/cgroup")
POD_SHARES = 8 * 1024
"""All pods together count as eight other processes do. By default they count as one, and starve on a busy machine."""
SYSCTLS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
"""What a kubelet sets for the whole machine. `__main__` puts them back."""
SECONDS = 180


class Node:
    """`programs`: the folder with what was built. Must be made in the node's own namespaces."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = CACHE / "node"
        self._containerd = CACHE / "containerd"
        self.kubeconfig = self.folder / "kubeconfig"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("logs", "pki", "volumes", "etcd", "kubelet", "net.d"):
            (self.folder / name).mkdir(parents=True)
        self._network()
        self._container_runtime()
        self._control_plane()
        self._workers()
        self._storage()

    def is_ready(self) -> bool:
        conditions = self.get("nodes")[0]["status"].get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    # -- the API -----------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        command = [str(kubectl()), "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=self.environment)
        if check and done.returncode:
            said = f"{done.stdout[-3000:]}{done.stderr[-2000:]}".strip()
            raise AssertionError(f"kubectl {' '.join(arguments)}: {said}")
        return done.stdout

    def get(self, what: str) -> list[Any]:
        found: list[Any] = json.loads(self.kubectl("get", what, "--output", "json"))["items"]
        return found

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "HELM_CACHE_HOME": str(self.folder / "helm")}

    # -- network -----------------------------------------------------------------------------------------------

    def _network(self) -> None:
        """/run is a fresh one, so that what is put there (namespaces, sockets) is seen here alone."""
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        _run("mount", "--make-rshared", "/")
        for line in (
            "link set lo up",
            "netns add client",
            "link add client0 type veth peer name eth0 netns client",
            f"addr add {NODE}/24 dev client0",
            "link set client0 up",
            "-netns client link set lo up",
            f"-netns client addr add {CLIENT}/24 dev eth0",
            "-netns client link set eth0 up",
            f"-netns client route add default via {NODE}",
        ):
            _run("ip", *line.split())
        _set("net/ipv4/ip_forward", "1")
        # An answer from a pod to its neighbour under a Service's address must pass where the address was changed.
        _set("net/bridge/bridge-nf-call-iptables", "1")
        names = self.folder / "resolv.conf"
        names.write_text(
            f"nameserver {NODE}\nsearch {NAMESPACE}.svc.cluster.local svc.cluster.local\noptions ndots:5\n"
        )
        _run("mount", "--bind", str(names), str(Path("/etc/resolv.conf").resolve()))

    # -- containers --------------------------------------------------------------------------------------------

    def _container_runtime(self) -> None:
        bridge = {
            "type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": PODS}]],
                     "routes": [{"dst": "0.0.0.0/0"}]},
        }  # fmt: skip
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}
        (self.folder / "net.d" / "pods.conflist").write_text(json.dumps(network))
        config = self.folder / "containerd.toml"
        config.write_text(
            f"""
            version = 3
            root = "{self._containerd}"
            state = "/run/containerd"
            [grpc]
              address = "/run/containerd/containerd.sock"
            [plugins."io.containerd.cri.v1.images".pinned_images]
              sandbox = "docker.io/{PAUSE}"
            [plugins."io.containerd.cri.v1.runtime"]
              restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE nobody may lower it
              [plugins."io.containerd.cri.v1.runtime".cni]
                bin_dirs = ["/usr/lib/cni"]
                conf_dir = "{self.folder}/net.d"
            """
        )
        self._begin("containerd", "containerd", "--config", str(config))
        _wait("containerd answers", lambda: _succeeds("ctr", "version"))
        _forget("containers")
        _forget("sandboxes", "--force")
        self._import_images()

    def _import_images(self) -> None:
        """Those that are others than last time. An upgrade's version is the same image by another name."""
        command = ("ctr", "--namespace", "k8s.io", "images", "list", "--quiet")
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for archive in archives():
            stamp, imported = archive.with_suffix(".id"), self._containerd / f"{archive.stem}.id"
            names = {f"docker.io/{name}" for name in stamp.read_text().splitlines()[1:]}
            if names <= set(listed) and imported.exists() and imported.read_text() == stamp.read_text():
                continue
            _run("ctr", "--namespace", "k8s.io", "images", "import", str(archive))
            first, *others = stamp.read_text().splitlines()[1:]
            for other in others:
                images = "ctr", "--namespace", "k8s.io", "images"
                _run(*images, "tag", "--force", f"docker.io/{first}", f"docker.io/{other}")
            imported.write_text(stamp.read_text())

    # -- Kubernetes --------------------------------------------------------------------------------------------

    def _control_plane(self) -> None:
        pki = self.folder / "pki"
        authority = Authority(pki)
        names = [x509.DNSName(name) for name in ("kubernetes.default.svc", "kubernetes.default", "localhost")]
        own = authority.signs(
            "api", *names, *(x509.IPAddress(ipaddress.ip_address(one)) for one in (NODE, API_SERVICE))
        )
        (pki / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
        _run("openssl", "genrsa", "-out", str(pki / "accounts.key"), "2048")
        self.kubeconfig.write_text(yaml.safe_dump(_kubeconfig(str(authority.ca))))
        self._begin(
            "etcd", "etcd", "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
            "--listen-peer-urls", "http://127.0.0.1:2380",
        )  # fmt: skip
        self._begin_built(
            "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={NODE}", "--secure-port=6443", "--kubelet-preferred-address-types=InternalIP",
            f"--tls-cert-file={own['cert']}", f"--tls-private-key-file={own['key']}", f"--cert-dir={pki}",
            f"--service-cluster-ip-range={SERVICES}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki}/accounts.key", f"--service-account-key-file={pki}/accounts.key",
            "--authorization-mode=RBAC", f"--token-auth-file={pki}/tokens",
        )  # fmt: skip
        _wait("the API server is ready", lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok")
        self._begin_built(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
            f"--service-account-private-key-file={pki}/accounts.key", f"--root-ca-file={authority.ca}",
            "--use-service-account-credentials=false",
        )  # fmt: skip
        self._begin_built("kube-scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false")

    def _workers(self) -> None:
        for controller in CONTROLLERS:
            if (GROUPS / controller).is_dir():
                (GROUPS / controller / GROUP).mkdir(exist_ok=True)
        if (shares := GROUPS / "cpu" / GROUP / "cpu.shares").exists():
            shares.write_text(str(POD_SHARES))
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{GROUP}", "failCgroupV1": False, "failSwapOn": False,
            "clusterDNS": [NODE], "clusterDomain": "cluster.local", "resolvConf": "",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "oomScoreAdj": 0,
            # By default parts of the machine's disk, of which a large one has much left: images would be deleted.
            "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "500Mi"),
            "imageGCHighThresholdPercent": 100,
        }  # fmt: skip
        proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)}, "clusterCIDR": PODS, "hostnameOverride": "node",
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }  # fmt: skip
        names = (
            f".:53 {{\n bind {NODE}\n errors\n kubernetes cluster.local {{\n kubeconfig {self.kubeconfig}\n }}\n}}\n"
        )
        configs = {"kubelet.yaml": yaml.safe_dump(kubelet), "proxy.yaml": yaml.safe_dump(proxy), "Corefile": names}
        for name, content in configs.items():
            (self.folder / name).write_text(content)
        self._begin_built(
            "kubelet", f"--config={self.folder}/kubelet.yaml", f"--kubeconfig={self.kubeconfig}", f"--node-ip={NODE}",
            f"--root-dir={self.folder}/kubelet", f"--cert-dir={self.folder}/pki", "--hostname-override=node",
        )  # fmt: skip
        _wait("the node is known", lambda: bool(self.kubectl("get", "nodes", "--output", "name")))
        self._begin_built("kube-proxy", f"--config={self.folder}/proxy.yaml")
        self._begin_built("coredns", "-conf", f"{self.folder}/Corefile")
        _wait("the node is ready", self.is_ready)
        _wait("names are resolved", lambda: _resolves("kubernetes.default.svc.cluster.local"))

    def _storage(self) -> None:
        """Folders of the node, to be claimed by whoever comes."""
        made: list[dict[str, object]] = [
            {
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
            }
        ]  # fmt: skip
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node"]}
        for number in range(VOLUMES):
            path = self.folder / "volumes" / str(number)
            path.mkdir()
            spec = {
                "capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "storageClassName": "local", "persistentVolumeReclaimPolicy": "Retain", "local": {"path": str(path)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            }  # fmt: skip
            name = {"name": f"local-{number}"}
            made.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": name, "spec": spec})
        self.kubectl("apply", "--filename", "-", text=yaml.safe_dump_all(made))

    # -- processes ---------------------------------------------------------------------------------------------

    def _begin_built(self, name: str, *arguments: str) -> None:
        self._begin(name, str(self.programs / name), *arguments)

    def _begin(self, name: str, *command: str) -> None:
        with (self.folder / "logs" / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_as_anybody
            )

    def check(self) -> None:
        """Raises AssertionError when a part of the node has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                last = (self.folder / "logs" / f"{name}.log").read_text(errors="replace")[-2000:]
                raise AssertionError(f"{name} ended with {process.returncode}:\n{last}")


def _kubeconfig(authority: str) -> dict[str, object]:
    cluster = {"server": f"https://{NODE}:6443", "certificate-authority": authority}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "node",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": "admin"}}],
    }  # fmt: skip


def _as_anybody() -> None:
    """However nice the run is: pods have their control groups' share, and a kubelet that comes after all of them would
    find out too late what it is to tell."""
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def _resolves(name: str) -> bool:
    try:
        return bool(socket.gethostbyname(name))
    except OSError:
        return False


def _forget(kind: str, *options: str) -> None:
    """What a run that was cut off has left beside the images: a kubelet clears it away before it is ready for more."""
    command = ("ctr", "--namespace", "k8s.io", kind)
    listed = subprocess.run([*command, "list"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    if left := [line.split()[0] for line in listed]:
        _run(*command, "remove", *options, *left)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")


def _set(name: str, value: str) -> None:
    Path("/proc/sys", name).write_text(value)


def _wait(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {SECONDS} s: {what}")
        time.sleep(0.2)
