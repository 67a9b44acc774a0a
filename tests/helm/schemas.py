"""Strict validation of every object: Kubernetes' own by its published schemas, custom ones by what we use of them.

The schemas of custom resources are closed and hold the fields that the chart writes, as the operators' definitions have
them: a field that is not there was never looked up.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

OLDEST, NEWEST = "1.30", "1.37"
Schema = dict[str, Any]

_METADATA: Schema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"},
        "namespace": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
_RESOURCES: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES},
}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_POD_TEMPLATE: Schema = {"$ref": "/api/_definitions.json#/$defs/io.k8s.api.core.v1.PodTemplateSpec"}
_POD_SECURITY: Schema = {"$ref": "/api/_definitions.json#/$defs/io.k8s.api.core.v1.PodSecurityContext"}
_CONTAINER_SECURITY: Schema = {"$ref": "/api/_definitions.json#/$defs/io.k8s.api.core.v1.SecurityContext"}
_SELECTOR: Schema = {"$ref": "/api/_definitions.json#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"}


def closed(required: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1}


TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 1}
SWITCH: Schema = {"type": "boolean"}
DURATION: Schema = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}

_STRIMZI_POD = closed("securityContext", securityContext=_POD_SECURITY)
_STRIMZI_CONTAINER = closed("securityContext", securityContext=_CONTAINER_SECURITY)
_ENDPOINT = closed("port path interval", port=TEXT, path=TEXT, interval=DURATION)
_RULE = {
    "type": "object",
    "required": ["expr"],
    "additionalProperties": False,
    "properties": {
        "record": TEXT,
        "alert": TEXT,
        "expr": {"type": ["string", "integer"]},
        "for": DURATION,
        "keep_firing_for": DURATION,
        "labels": _TEXTS,
        "annotations": _TEXTS,
    },
}
_POLICIES = list_of(
    closed("type value periodSeconds", type=one_of("Pods", "Percent"), value=COUNT, periodSeconds=COUNT)
)
_SCALE_DOWN = closed(
    "policies",
    stabilizationWindowSeconds={"type": "integer", "minimum": 0, "maximum": 3600},
    policies=_POLICIES,
)

_GATEWAY = closed(
    "name",
    group={"type": "string"},
    kind=TEXT,
    name=TEXT,
    namespace=TEXT,
    sectionName=TEXT,
    port={"type": "integer", "minimum": 1, "maximum": 65535},
)
_BACKEND = closed("name port", name=TEXT, port={"type": "integer", "minimum": 1, "maximum": 65535})
_HTTP_MATCH = closed("path", path=closed("type value", type=one_of("Exact", "PathPrefix"), value=TEXT))
_HTTP_RULE = closed(
    "backendRefs",
    backendRefs=list_of(_BACKEND),
    matches=list_of(_HTTP_MATCH),
    timeouts=closed("request", request=DURATION),
)
_STREAM_ROUTE = closed(
    "parentRefs rules",
    parentRefs=list_of(_GATEWAY),
    rules={**list_of(closed("backendRefs", backendRefs=list_of(_BACKEND))), "maxItems": 1},
)
_HTTP_ROUTE = closed(
    "parentRefs rules",
    parentRefs=list_of(_GATEWAY),
    hostnames=list_of({"type": "string", "pattern": r"^(\*\.)?[a-z0-9.-]+$"}),
    rules=list_of(_HTTP_RULE),
)

CUSTOM: dict[tuple[str, str], Schema] = {
    ("gateway.networking.k8s.io/v1", "UDPRoute"): _STREAM_ROUTE,
    ("gateway.networking.k8s.io/v1", "TCPRoute"): _STREAM_ROUTE,
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): _HTTP_ROUTE,
    ("monitoring.coreos.com/v1", "PodMonitor"): closed(
        "selector podMetricsEndpoints", selector=_SELECTOR, podMetricsEndpoints=list_of(_ENDPOINT)
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): closed(
        "selector endpoints", selector=_SELECTOR, endpoints=list_of(_ENDPOINT)
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): closed(
        "groups", groups=list_of(closed("name rules", name=TEXT, interval=DURATION, rules=list_of(_RULE)))
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): closed(
        "scaleTargetRef minReplicaCount maxReplicaCount triggers",
        scaleTargetRef=closed("apiVersion kind name", apiVersion=TEXT, kind=one_of("StatefulSet"), name=TEXT),
        minReplicaCount=COUNT,
        maxReplicaCount=COUNT,
        advanced=closed(
            "horizontalPodAutoscalerConfig",
            horizontalPodAutoscalerConfig=closed("behavior", behavior=closed("scaleDown", scaleDown=_SCALE_DOWN)),
        ),
        triggers=list_of(
            closed("type metadata", type=TEXT, metricType=one_of("Utilization", "AverageValue"), metadata=_TEXTS)
        ),
    ),
    ("cert-manager.io/v1", "Certificate"): closed(
        "secretName issuerRef",
        secretName=TEXT,
        isCA=SWITCH,
        commonName=TEXT,
        dnsNames=list_of({"type": "string", "pattern": r"^(\*\.)?[a-z0-9.-]+$"}),
        duration=DURATION,
        renewBefore=DURATION,
        privateKey=closed("algorithm", algorithm=one_of("ECDSA"), size=COUNT, rotationPolicy=one_of("Always")),
        usages=list_of(one_of("server auth", "client auth")),
        issuerRef=closed("name", name=TEXT, kind=one_of("Issuer", "ClusterIssuer"), group=TEXT),
    ),
    ("cert-manager.io/v1", "Issuer"): closed("", selfSigned=closed(""), ca=closed("secretName", secretName=TEXT)),
    ("spark.apache.org/v1", "SparkApplication"): closed(
        "pyFiles driverArgs sparkConf runtimeVersions driverSpec executorSpec",
        pyFiles=TEXT,
        driverArgs=list_of(TEXT),
        sparkConf=_TEXTS,
        runtimeVersions=closed("sparkVersion", sparkVersion=TEXT),
        applicationTolerations=closed(
            "restartConfig",
            restartConfig=closed(
                "restartPolicy",
                restartPolicy=one_of("Always", "Never", "OnFailure", "OnInfrastructureFailure"),
                restartBackoffMillis=COUNT,
                maxRestartAttempts=COUNT,
            ),
            resourceRetainPolicy=one_of("Always", "Never", "OnFailure"),
        ),
        driverSpec=closed("podTemplateSpec", podTemplateSpec=_POD_TEMPLATE),
        executorSpec=closed("podTemplateSpec", podTemplateSpec=_POD_TEMPLATE),
    ),
    ("kafka.strimzi.io/v1", "Kafka"): closed(
        "kafka entityOperator",
        kafka=closed(
            "listeners config",
            version=TEXT,
            listeners=list_of(
                closed(
                    "name port type tls",
                    name={"type": "string", "pattern": "^[a-z0-9]{1,11}$"},
                    port={"type": "integer", "minimum": 9092},
                    type=one_of("internal"),
                    tls=SWITCH,
                    authentication=closed("type", type=one_of("scram-sha-512", "tls")),
                )
            ),
            authorization=closed("type", type=one_of("simple")),
            config={"type": "object"},
            template=closed("pod kafkaContainer", pod=_STRIMZI_POD, kafkaContainer=_STRIMZI_CONTAINER),
        ),
        entityOperator=closed(
            "topicOperator userOperator",
            topicOperator=closed(""),
            userOperator=closed(""),
            template=closed(
                "pod",
                pod=_STRIMZI_POD,
                topicOperatorContainer=_STRIMZI_CONTAINER,
                userOperatorContainer=_STRIMZI_CONTAINER,
            ),
        ),
    ),
    ("kafka.strimzi.io/v1", "KafkaNodePool"): closed(
        "replicas roles storage",
        replicas=COUNT,
        roles=list_of(one_of("controller", "broker")),
        storage=closed(
            "type volumes",
            type=one_of("jbod"),
            volumes=list_of(
                closed(
                    "id type",
                    id={"type": "integer", "minimum": 0},
                    type=one_of("persistent-claim", "ephemeral"),
                    size=TEXT,
                    **{"class": TEXT},
                    kraftMetadata=one_of("shared"),
                    deleteClaim=SWITCH,
                )
            ),
        ),
        resources=_RESOURCES,
    ),
    ("kafka.strimzi.io/v1", "KafkaTopic"): closed(
        "partitions replicas config", topicName=TEXT, partitions=COUNT, replicas=COUNT, config=_TEXTS
    ),
    ("kafka.strimzi.io/v1", "KafkaUser"): closed(
        "authentication authorization",
        authentication=closed("type", type=one_of("scram-sha-512")),
        authorization=closed(
            "type acls",
            type=one_of("simple"),
            acls=list_of(
                closed(
                    "resource operations",
                    resource=closed(
                        "type name patternType",
                        type=one_of("topic", "group", "cluster"),
                        name=TEXT,
                        patternType=one_of("prefix", "literal"),
                    ),
                    operations=list_of(one_of("All", "Read", "Write", "Describe", "Create", "Alter")),
                )
            ),
        ),
    ),
}


def faults(each: dict[str, Any], kubernetes: str = NEWEST) -> list[str]:
    """Returns what is wrong with an object; empty when nothing is."""
    known = CUSTOM.get((each["apiVersion"], each["kind"]))
    if known is None:
        validator = published(each["apiVersion"], each["kind"], kubernetes)
    else:
        whole = closed("apiVersion kind metadata spec", apiVersion=TEXT, kind=TEXT, metadata=_METADATA, spec=known)
        validator = Draft202012Validator(whole, registry=definitions(kubernetes))
    name = f"{each['kind']} {each['metadata'].get('name')}"
    return [f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(each)]


@cache
def published(api_version: str, kind: str, kubernetes: str) -> Draft202012Validator:
    # rbac.authorization.k8s.io/v1 is rbac-v1 there
    short = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = json.loads(_folder(kubernetes).joinpath(f"{kind.lower()}-{short}.json").read_text())
    return Draft202012Validator(schema, registry=definitions(kubernetes))


@cache
def definitions(kubernetes: str) -> Registry[Any]:
    contents = json.loads(_folder(kubernetes).joinpath("_definitions.json").read_text())
    shared: Resource[Any] = Resource.from_contents(contents)
    registry: Registry[Any] = Registry()
    return registry.with_resources([("/api/_definitions.json", shared), (contents["$id"], shared)])


def _folder(kubernetes: str) -> Any:
    schemas = resources.files("kubernetes_validate").joinpath("kubernetes-json-schema")
    return schemas.joinpath(f"v{kubernetes}.0-local-strict")
