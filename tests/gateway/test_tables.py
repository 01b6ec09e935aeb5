"""Our own small tables of versions, methods, headers and errors, against those of the SDK."""

from __future__ import annotations

from typing import get_args

import mcp_types
import pytest
from mcp.shared import inbound
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import methods as theirs
from mcp_types import version as their_versions
from pydantic import ValidationError

from gateway.conversation import CAPABILITIES
from gateway.protocol import errors, headers, methods, versions

OURS = {name: value for name, value in vars(methods).items() if isinstance(value, str) and name.isupper()}
EVERY = (*versions.SESSION_VERSIONS, *versions.STATELESS_VERSIONS)
CLIENT_REQUESTS, CLIENT_NOTIFICATIONS = set(theirs.CLIENT_REQUESTS), set(theirs.CLIENT_NOTIFICATIONS)
SERVER_REQUESTS, SERVER_NOTIFICATIONS = set(theirs.SERVER_REQUESTS), set(theirs.SERVER_NOTIFICATIONS)
KNOWN = {method for method, _ in CLIENT_REQUESTS | CLIENT_NOTIFICATIONS | SERVER_REQUESTS | SERVER_NOTIFICATIONS}


def test_all_versions_there_are_and_no_others() -> None:
    assert tuple(their_versions.KNOWN_PROTOCOL_VERSIONS) == EVERY
    assert EVERY[-1] == versions.LATEST
    assert versions.LATEST_SESSION in versions.SESSION_VERSIONS


@pytest.mark.parametrize("version", EVERY)
def test_an_era_is_known_by_its_first_question(version: str) -> None:
    assert ((methods.INITIALIZE, version) in CLIENT_REQUESTS) == (version in versions.SESSION_VERSIONS)
    assert ((methods.DISCOVER, version) in CLIENT_REQUESTS) == (version in versions.STATELESS_VERSIONS)
    assert ((methods.PING, version) in CLIENT_REQUESTS) == (version in versions.SESSION_VERSIONS)


@pytest.mark.parametrize("name", OURS)
def test_every_method_we_know_by_name_exists(name: str) -> None:
    assert OURS[name] in KNOWN


def test_every_method_that_exists_is_known_to_us_by_name() -> None:
    # Of the elicitation that a server completes elsewhere, and of the like, we only pass the message on.
    relayed = {"notifications/elicitation/complete", "notifications/tasks/status"}
    lists = set(methods.CHANGED.values())
    assert KNOWN - set(OURS.values()) - lists <= relayed


def test_every_request_of_a_server_needs_the_capability_we_ask_for() -> None:
    asked = {method for method, _ in SERVER_REQUESTS} - {methods.PING}
    assert asked == set(methods.ASKS_FOR)
    assert set(methods.ASKS_FOR.values()) <= set(mcp_types.ClientCapabilities.model_fields)


def test_lists_have_the_methods_and_the_members_that_their_results_have() -> None:
    for kind, method in methods.LISTS.items():
        for version in EVERY:
            key = methods.RESULT_KEYS[kind]
            needed = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
            assert theirs.validate_server_result(method, version, {key: [], **needed}) is None
            with pytest.raises(ValidationError):
                theirs.validate_server_result(method, version, {f"not{key}": [], **needed})
        assert methods.CHANGED[kind] in {name for name, _ in SERVER_NOTIFICATIONS}


def test_levels_are_those_of_the_protocol_in_its_order() -> None:
    assert get_args(mcp_types.LoggingLevel) == methods.LEVELS


def test_the_capabilities_we_declare_are_a_servers() -> None:
    declared = mcp_types.ServerCapabilities.model_validate(CAPABILITIES)
    assert declared.model_dump(exclude_none=True, by_alias=True) == CAPABILITIES


def test_errors_have_the_codes_of_the_protocol() -> None:
    assert (errors.PARSE_ERROR, errors.INVALID_REQUEST, errors.METHOD_NOT_FOUND, errors.INVALID_PARAMS) == (
        mcp_types.PARSE_ERROR,
        mcp_types.INVALID_REQUEST,
        mcp_types.METHOD_NOT_FOUND,
        mcp_types.INVALID_PARAMS,
    )
    assert errors.INTERNAL_ERROR == mcp_types.INTERNAL_ERROR
    assert errors.HEADER_MISMATCH == mcp_types.HEADER_MISMATCH
    assert errors.MISSING_CAPABILITY == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert errors.UNSUPPORTED_VERSION == mcp_types.UNSUPPORTED_PROTOCOL_VERSION


def test_headers_have_the_names_of_the_protocol() -> None:
    assert headers.VERSION.lower() == inbound.MCP_PROTOCOL_VERSION_HEADER.lower()
    assert headers.METHOD.lower() == inbound.MCP_METHOD_HEADER.lower()
    assert headers.NAME.lower() == inbound.MCP_NAME_HEADER.lower()
    assert headers.PARAM.lower() == inbound.MCP_PARAM_HEADER_PREFIX.lower()
    assert headers.ANNOTATION == inbound.X_MCP_HEADER_KEY
    assert dict(headers.NAMED) == dict(inbound.NAME_BEARING_METHODS)


def test_the_members_of_meta_have_the_names_of_the_protocol() -> None:
    found = {value for name, value in vars(mcp_types).items() if name.endswith("_META_KEY") and isinstance(value, str)}
    assert {
        versions.META_VERSION,
        versions.META_CAPABILITIES,
        versions.META_CLIENT,
        versions.META_LEVEL,
        versions.META_SERVER,
    } == found
    assert versions.META_SUBSCRIPTION == SUBSCRIPTION_ID_META_KEY
