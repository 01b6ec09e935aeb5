"""Method names, and what each needs of the other side."""

from __future__ import annotations

from typing import Final

INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
DISCOVER: Final = "server/discover"
PING: Final = "ping"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
MESSAGE: Final = "notifications/message"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
PROMPTS_LIST: Final = "prompts/list"
PROMPTS_GET: Final = "prompts/get"
RESOURCES_LIST: Final = "resources/list"
RESOURCES_READ: Final = "resources/read"
TEMPLATES_LIST: Final = "resources/templates/list"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
COMPLETE: Final = "completion/complete"
SET_LEVEL: Final = "logging/setLevel"
ROOTS_LIST: Final = "roots/list"
ROOTS_CHANGED: Final = "notifications/roots/list_changed"
SAMPLING: Final = "sampling/createMessage"
ELICITATION: Final = "elicitation/create"

LISTS: Final = {
    "tools": TOOLS_LIST,
    "prompts": PROMPTS_LIST,
    "resources": RESOURCES_LIST,
    "templates": TEMPLATES_LIST,
}
RESULT_KEYS: Final = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "templates": "resourceTemplates",
}
CHANGED: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "templates": "notifications/resources/list_changed",
}
ASKS_FOR: Final = {SAMPLING: "sampling", ELICITATION: "elicitation", ROOTS_LIST: "roots"}
"""The client capability a server's request needs."""

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
