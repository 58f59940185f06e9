"""The OpenAPI document: it says what the routes do, and the routes do what it says."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.console.v1.calls import PROBLEM, Endpoint
from dray.console.v1.openapi import document
from dray.console.v1.routes import ROWS, routes

DOCUMENT = document(ROWS)
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
TEXT = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/?#%"), min_size=1
)


def test_the_document_is_served_and_names_every_route_and_no_other(client):
    served = client.get("/v1/openapi.json")
    assert served.json() == DOCUMENT
    assert served.json()["openapi"].startswith("3.1")
    told = {(path, method.upper()) for path, method, _ in OPERATIONS}
    routed = {
        (route.path.replace(":path", ""), method)
        for route in routes
        for method, endpoint in getattr(route.endpoint, "methods", {}).items()
        if isinstance(endpoint, Endpoint)
        and (method != "HEAD" or "GET" not in route.endpoint.methods)
    }
    assert told == routed
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names)


def test_every_part_of_a_path_is_a_parameter_and_every_reference_resolves():
    for path, _, operation in OPERATIONS:
        named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        problem = operation["responses"]["default"]["content"][PROBLEM]["schema"]["$ref"]
        at = DOCUMENT
        for part in problem.removeprefix("#/").split("/"):
            at = at[part]
        assert at["required"] == ["status", "code", "title", "detail"]


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_request_gets_an_answer_of_the_document_and_never_a_500(client, data):
    path, method, operation = data.draw(st.sampled_from(OPERATIONS))
    query, headers = {}, {}
    for each in operation["parameters"]:
        value = data.draw(st.one_of(st.none(), TEXT, st.sampled_from(["0", "1", "true", "large"])))
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", value or "x")
        elif value is not None:
            (query if each["in"] == "query" else headers)[each["name"]] = value
    if "wait" in query:
        query["wait"] = data.draw(st.sampled_from(["0", "-1", "nan", "inf", "1e9", "x"]))
    body = data.draw(st.binary(max_size=200)) if "requestBody" in operation else None
    answer = client.request(method.upper(), path, params=query, headers=headers, content=body)
    if answer.is_success:
        assert str(answer.status_code) in operation["responses"]
    else:
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == PROBLEM
        if method == "head":
            return
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert problem["detail"].strip()
