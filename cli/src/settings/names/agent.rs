//! The settings of the agent and of the models that it uses.

use crate::settings::setting::{Setting, settings};

settings! { AGENT_SETTINGS
    AGENT_LISTEN "OPENSKILL_AGENT_LISTEN" "127.0.0.1:8010" "agent"
        "Address that `openskill agent` listens on, `HOST:PORT`. An address that other machines can reach needs `OPENSKILL_KEYS` or `OPENSKILL_JWT`, or `OPENSKILL_ANONYMOUS=allow`.";
    AGENT_STORE "OPENSKILL_AGENT_STORE" "" "gateway, up, agent"
        "File that the agent keeps conversations in. One process at a time can use it. `memory`: they are lost when the process ends. Default: `memory`; with `up`, `$XDG_STATE_HOME/openskill/agent.redb` or `~/.local/state/openskill/agent.redb`, or `memory` if that cannot be opened.";
    AGENT_LIFETIME_HOURS "OPENSKILL_AGENT_LIFETIME_HOURS" "720" "gateway, up, agent"
        "How long a conversation is kept after its last use, in hours.";
    AGENT_PROVIDER "OPENSKILL_AGENT_PROVIDER" "" "gateway, up, agent"
        "Model provider if a message names none: `openai`, `dashscope`, `anthropic` or `gemini`. Default: the first of them that is configured.";
    OPENAI_API_KEY "OPENAI_API_KEY" "" "gateway, up, agent"
        "API key for OpenAI, or for a compatible server. `openskill config` masks it.";
    OPENAI_API_BASE "OPENAI_API_BASE" "" "gateway, up, agent"
        "Base URL of this provider, such as `http://localhost:11434`. With it, no key is needed. Default: the provider's own.";
    OPENAI_MODEL "OPENAI_MODEL" "" "gateway, up, agent"
        "Model of this provider if a message names none, such as `gpt-5`.";
    OPENAI_API_STYLE "OPENAI_API_STYLE" "chat" "gateway, up, agent"
        "Wire format of this provider: `chat` (chat completions) or `responses`.";
    DASHSCOPE_API_KEY "DASHSCOPE_API_KEY" "" "gateway, up, agent"
        "API key for Alibaba DashScope. `openskill config` masks it.";
    DASHSCOPE_API_BASE "DASHSCOPE_API_BASE" "" "gateway, up, agent"
        "Base URL of this provider. Default: the provider's own.";
    DASHSCOPE_MODEL "DASHSCOPE_MODEL" "" "gateway, up, agent"
        "Model of this provider if a message names none, such as `qwen-plus`.";
    ANTHROPIC_API_KEY "ANTHROPIC_API_KEY" "" "gateway, up, agent"
        "API key for Anthropic. `openskill config` masks it.";
    ANTHROPIC_API_BASE "ANTHROPIC_API_BASE" "" "gateway, up, agent"
        "Base URL of this provider. Default: the provider's own.";
    ANTHROPIC_MODEL "ANTHROPIC_MODEL" "" "gateway, up, agent"
        "Model of this provider if a message names none, such as `claude-sonnet-4-5`.";
    GEMINI_API_KEY "GEMINI_API_KEY" "" "gateway, up, agent"
        "API key for Google Gemini. `openskill config` masks it.";
    GEMINI_API_BASE "GEMINI_API_BASE" "" "gateway, up, agent"
        "Base URL of this provider. Default: the provider's own.";
    GEMINI_MODEL "GEMINI_MODEL" "" "gateway, up, agent"
        "Model of this provider if a message names none, such as `gemini-2.5-flash`.";
    AGENT_PRICES "OPENSKILL_AGENT_PRICES" "" "gateway, up, agent"
        "Price per million tokens, `PROVIDER:MODEL=INPUT/OUTPUT` separated by commas, such as `openai:gpt-5=1.25/10`. The agent counts costs in millionths of this currency. Default: no model has a price.";
    AGENT_INSTRUCTIONS "OPENSKILL_AGENT_INSTRUCTIONS" "" "gateway, up, agent"
        "File with instructions for the model, before the agent's own.";
    AGENT_MAX_TOOL_CALLS "OPENSKILL_AGENT_MAX_TOOL_CALLS" "5" "gateway, up, agent"
        "Maximum number of tool calls in a turn whose message sets no limit, at most 50.";
    AGENT_MAX_ITERATIONS "OPENSKILL_AGENT_MAX_ITERATIONS" "10" "gateway, up, agent"
        "Maximum number of model requests in such a turn, at most 100. The last request, for the answer, is not counted.";
    AGENT_MAX_VALIDATION_RETRIES "OPENSKILL_AGENT_MAX_VALIDATION_RETRIES" "3" "gateway, up, agent"
        "How many consecutive times such a turn returns invalid arguments to the model, at most 10.";
    AGENT_TIMEOUT_MS "OPENSKILL_AGENT_TIMEOUT_MS" "300000" "gateway, up, agent"
        "Maximum duration of such a turn, in milliseconds, not counting the time that it waits for its user.";
    AGENT_MAX_TOKENS "OPENSKILL_AGENT_MAX_TOKENS" "0" "gateway, up, agent"
        "Maximum number of tokens of a turn, read and written. Messages cannot raise this limit. `0`: no limit.";
    AGENT_MAX_COST_MICROS "OPENSKILL_AGENT_MAX_COST_MICROS" "0" "gateway, up, agent"
        "Maximum cost of a turn, in millionths of the currency of `OPENSKILL_AGENT_PRICES`. Messages cannot raise this limit. `0`: no limit.";
    AGENT_WINDOW "OPENSKILL_AGENT_WINDOW" "20" "gateway, up, agent"
        "How many messages of a conversation the model sees.";
    AGENT_TOKEN_BUDGET "OPENSKILL_AGENT_TOKEN_BUDGET" "32000" "gateway, up, agent"
        "How many tokens of a conversation the model sees, by estimate. Beyond that, earlier results are shortened, and then earlier messages are summarized.";
    AGENT_MAX_TOOLS "OPENSKILL_AGENT_MAX_TOOLS" "30" "gateway, up, agent"
        "How many tools the model sees at once. If there are more, the model searches for tools.";
    AGENT_TEXT_CALLS "OPENSKILL_AGENT_TEXT_CALLS" "0" "gateway, up, agent"
        "`1`: calls that the model writes [as plain text](agent-providers.md#calls-written-as-plain-text) are accepted. `0`: they are not.";
    AGENT_QUESTION_LIFETIME "OPENSKILL_AGENT_QUESTION_LIFETIME_S" "86400" "gateway, up, agent"
        "How long the agent waits for an answer or an approval, in seconds.";
    AGENT_MAX_TURNS "OPENSKILL_AGENT_MAX_TURNS" "1000" "gateway, up, agent"
        "How many turns run at once. Further messages are refused with `OVERLOADED`.";
}
