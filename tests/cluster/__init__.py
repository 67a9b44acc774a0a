"""A real Kubernetes of one node, in namespaces of its own on this machine, and the chart on it as an operator uses it.

    programs   what is fetched (Debian, PyPI) and built (Kubernetes, CoreDNS): once for a user
    images     the project's two Dockerfiles, built by buildah on a base by debootstrap
    node       the node: etcd, control plane, kubelet, kube-proxy, containerd, and a client outside of it
    load       who sends and subscribes meanwhile, through the Service
    steps      what is done to the mesh, and what must hold

Not part of the test suite: it needs root, half an hour the first time, and 6 GiB of memory. README.md says more.
"""
