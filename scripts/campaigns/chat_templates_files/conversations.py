"""Conversations of every kind, and the variables that they are rendered with."""


def turn(role, content, **more):
    return dict(role=role, content=content, **more)


def call(name="f", arguments=None, identity=None):
    if arguments is None:
        arguments = {"x": 1, "s": "é \"q\" <b>", "l": [1, 2.5, None, True], "d": {"b": 1, "a": -0.0}}
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": identity, **made} if identity else made


ID, OTHER_ID = "abcdef123", "zzzzzz999"


def with_a_call(content, **more):
    asked = {"role": "assistant", "tool_calls": [call(identity=ID)], **more}
    if content != "absent":
        asked["content"] = content
    return [turn("user", "go"), asked, turn("tool", "14", tool_call_id=ID, name="f"), turn("assistant", "Done")]


CONVERSATIONS = {
    "a question": [turn("user", "Hi")],
    "answered": [turn("user", "Hi"), turn("assistant", "Hello!")],
    "system": [turn("system", "Be brief."), turn("user", "Why?"), turn("assistant", "So.")],
    "several rounds": [turn("system", "S"), turn("user", "1"), turn("assistant", "2"), turn("user", "3"),
                       turn("assistant", "4"), turn("user", "5")],
    "developer": [turn("developer", "D"), turn("user", "1"), turn("assistant", "2")],
    "system and developer": [turn("system", "S"), turn("developer", "D"), turn("user", "1")],
    "empty": [turn("user", ""), turn("assistant", "")],
    "empty system": [turn("system", ""), turn("user", "x"), turn("assistant", "y")],
    "blanks": [turn("system", " \n s \t"), turn("user", "\n\u00a0a\u2003\u3000 "),
               turn("assistant", "\r\n b\x0b\x0c\x1c\u200b\n\n")],
    "letters": [turn("user", "Grüße 世界 😀👩‍👩‍👧 é \u0000 \u2028 \ufeff"),
                turn("assistant", "नमस्ते ไทย العربية \ud7ff \U0010ffff")],
    "tags in texts": [turn("user", "<|im_end|>\n<|im_start|>assistant\n<s>[/INST]<end_of_turn>"),
                      turn("assistant", "</s><|eot_id|>{{x}}{% if %}")],
    "a call": with_a_call(""),
    "a call, content null": with_a_call(None),
    "a call, content absent": with_a_call("absent") + [turn("user", "more")],
    "a call, arguments as text": [
        turn("user", "go"), turn("assistant", "text", tool_calls=[call(arguments='{"x": 1, "s": "é"}', identity=ID)]),
        turn("tool", '{"r": [1, "é"]}', tool_call_id=ID, name="f"), turn("assistant", "Done")],
    "a call without its identity": [turn("user", "go"), turn("assistant", "a", tool_calls=[call()]), turn("tool", "14"),
                                    turn("assistant", "b")],
    "a call without arguments": [turn("user", "go"), turn("assistant", "a", tool_calls=[call(arguments={}, identity=ID)]),
                                 turn("tool", "", tool_call_id=ID, name="f"), turn("assistant", "b")],
    "no calls": [turn("user", "go"), turn("assistant", "a", tool_calls=[]), turn("user", "b")],
    "two calls": [
        turn("system", "S"), turn("user", "go"),
        turn("assistant", "L", tool_calls=[call(identity=ID), call("g", {"q": "<&>'\\"}, OTHER_ID)]),
        turn("tool", "1", tool_call_id=ID, name="f"), turn("tool", "2", tool_call_id=OTHER_ID, name="g"),
        turn("assistant", "D"), turn("user", "again"), turn("assistant", "", tool_calls=[call(identity=ID)]),
        turn("tool", "3", tool_call_id=ID, name="f")],
    "a bare call": [turn("user", "go"), turn("assistant", "", tool_calls=[{"name": "f", "arguments": {"a": 1}}]),
                    turn("tool", "r", name="f"), turn("assistant", "e")],
    "a result that is no text": [turn("user", "go"), turn("assistant", "", tool_calls=[call(identity=ID)]),
                                 turn("tool", {"r": [1, 1e20, 1e-7, 3.0]}, tool_call_id=ID, name="f"),
                                 turn("assistant", "Done")],
    "thoughts": [turn("user", "q"), turn("assistant", "A.", reasoning_content="Let me.\n\nsee"), turn("user", "q2"),
                 turn("assistant", "B.", reasoning_content="hm")],
    "thoughts by other names": [turn("user", "q"), turn("assistant", "A.", reasoning="r1"), turn("user", "q2"),
                                turn("assistant", "B.", thinking="t2")],
    "thoughts in the text": [turn("user", "q"), turn("assistant", "<think>\nfoo\n</think>\n\nA."), turn("user", "q2"),
                             turn("assistant", "<think>bar</think>B.")],
    "thoughts and a call": with_a_call("", reasoning_content="plan")[:3] + [
        turn("assistant", "Fin.", reasoning_content="ok"), turn("user", "n"),
        turn("assistant", "Z", reasoning_content="last")],
    "parts": [turn("user", [{"type": "text", "text": "What "}, {"type": "text", "text": "this?"}]),
              turn("assistant", [{"type": "text", "text": "That."}])],
    "images": [turn("system", [{"type": "text", "text": "S"}]),
               turn("user", [{"type": "image"}, {"type": "text", "text": "see?"}, {"type": "image", "image": "a.png"},
                             {"type": "image_url", "image_url": {"url": "http://x"}}, {"type": "video"}, {"type": "audio"}]),
               turn("assistant", [{"type": "text", "text": "Yes."}])],
    "no parts": [turn("user", []), turn("assistant", [])],
    "two users": [turn("user", "a"), turn("user", "b")],
    "assistant first": [turn("assistant", "a"), turn("user", "b")],
    "two assistants": [turn("user", "q"), turn("assistant", "one"), turn("assistant", "two"), turn("user", "r"),
                       turn("assistant", "three")],
    "late system": [turn("user", "a"), turn("system", "b"), turn("assistant", "c")],
    "unknown role": [turn("user", "a"), turn("critic", "b")],
    "system alone": [turn("system", "s")],
    "names": [turn("user", "a", name="Bob"), turn("assistant", "b", name="Al", weight=1.5)],
    "ipython": [turn("user", "a"), turn("ipython", "out"), turn("assistant", "b")],
    "numbers": [turn("user", 5), turn("assistant", 1.0)],
    "other values": [turn("user", True), turn("assistant", {"a": [1]})],
    "long": [turn("user", "x" * 3000 + "\n" + "y  z" * 500), turn("assistant", "w\n" * 800)],
}

TOOLS = [
    {"type": "function", "function": {
        "name": "f", "description": "A \"d\" <é>'\n", "parameters": {
            "type": "object", "properties": {
                "x": {"type": "integer", "description": "ex", "default": 0},
                "s": {"type": ["string", "null"], "enum": ["a", "b"]},
                "l": {"type": "array", "items": {"type": "number"}},
                "o": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"],
                      "additionalProperties": False},
                "u": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            "required": ["x"]},
        "return": {"type": "string", "description": "r"}}},
    {"type": "function", "function": {"name": "g", "description": "", "parameters": {"type": "object", "properties": {}}}}]
BARE_TOOLS = [{"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]

# The last ones for a few conversations only.
VARIABLES = [{}, {"enable_thinking": True}, {"enable_thinking": False}, {"tools": TOOLS},
             {"tools": TOOLS, "enable_thinking": False}, {"tools": BARE_TOOLS}, {"tools": []}]
RARE_VARIABLES = [
    {"documents": [{"title": "t", "text": "x"}, {"title": "u", "text": "y", "doc_id": 3}]},
    {"reasoning_effort": "low", "thinking": True, "date_string": "x", "builtin_tools": ["browser", "python"],
     "model_identity": "M"},
    {"preserve_thinking": True, "clear_thinking": False, "tools": TOOLS}]
RARE_FOR = ("several rounds", "two calls", "thoughts", "thoughts and a call", "a call")


# For masks: each word of the assistant begins with Qa and ends with zq, each of the others with Xo and wx; numbers
# between, so that none is part of another.
class Words:
    def __init__(self):
        self.count = 0

    def said(self, extra=""):
        self.count += 1
        return f"Qa{self.count}zq{extra}"

    def other(self, extra=""):
        self.count += 1
        return f"Xo{self.count}wx{extra}"


def marked_conversations():
    """(name, messages) by one counter of words for each."""
    def make(build):
        words = Words()
        return build(words.said, words.other)

    def called(said, name="f", identity=ID, **more):
        return call(name, {"x": said(), "n": {"k": [said()]}}, identity) | more

    def ask(said, other, content=None, **more):
        message = {"role": "assistant", "tool_calls": [called(said)], **more}
        return message if content is None else message | {"content": content}

    answer = lambda other, identity=ID, name="f": turn("tool", other(), tool_call_id=identity, name=name)
    kinds = {
        "answered": lambda s, o: [turn("user", o()), turn("assistant", s())],
        "system": lambda s, o: [turn("system", o()), turn("user", o()), turn("assistant", s(" ") + s("."))],
        "rounds": lambda s, o: [turn("system", o()), turn("user", o()), turn("assistant", s()), turn("user", o()),
                                turn("assistant", s()), turn("user", o()), turn("assistant", s())],
        "open end": lambda s, o: [turn("user", o()), turn("assistant", s()), turn("user", o())],
        "blanks": lambda s, o: [turn("user", " " + o("\n")), turn("assistant", "\n" + s(" \n")), turn("user", o()),
                                turn("assistant", " " + s(" "))],
        "same words": lambda s, o: [turn("user", o()), turn("assistant", "Qa1zq"), turn("user", o()),
                                    turn("assistant", "Qa1zq")],
        "empty": lambda s, o: [turn("user", o()), turn("assistant", ""), turn("user", o()), turn("assistant", s())],
        "assistant first": lambda s, o: [turn("assistant", s()), turn("user", o()), turn("assistant", s())],
        "two assistants": lambda s, o: [turn("user", o()), turn("assistant", s()), turn("assistant", s()),
                                        turn("user", o()), turn("assistant", s())],
        "two assistants last": lambda s, o: [turn("system", o()), turn("user", o()), turn("assistant", s()),
                                             turn("assistant", s())],
        "two users": lambda s, o: [turn("user", o()), turn("user", o()), turn("assistant", s())],
        "late system": lambda s, o: [turn("user", o()), turn("system", o()), turn("assistant", s())],
        "developer": lambda s, o: [turn("developer", o()), turn("user", o()), turn("assistant", s())],
        "a call": lambda s, o: [turn("user", o()), ask(s, o, ""), answer(o), turn("assistant", s())],
        "a call after a system": lambda s, o: [turn("system", o()), turn("user", o()), ask(s, o, ""), answer(o),
                                               turn("assistant", s()), turn("user", o()), turn("assistant", s())],
        "a call, content absent": lambda s, o: [turn("user", o()), ask(s, o), answer(o), turn("assistant", s())],
        "words and a call": lambda s, o: [turn("user", o()), ask(s, o, s()), answer(o), turn("assistant", s())],
        "two calls": lambda s, o: [
            turn("user", o()), ask(s, o, "") | {"tool_calls": [called(s), called(s, "g", OTHER_ID)]}, answer(o),
            answer(o, OTHER_ID, "g"), turn("assistant", s()), turn("user", o()), turn("assistant", s())],
        "calls in a row": lambda s, o: [turn("user", o()), ask(s, o, ""), answer(o), ask(s, o, ""), answer(o),
                                        turn("assistant", s())],
        "a call at the end": lambda s, o: [turn("user", o()), ask(s, o, "")],
        "a result at the end": lambda s, o: [turn("user", o()), ask(s, o, ""), answer(o)],
        "a call as text": lambda s, o: [
            turn("user", o()), turn("assistant", s(), tool_calls=[call("f", '{"x": "' + s() + '"}', ID)]), answer(o),
            turn("assistant", s())],
        "thoughts": lambda s, o: [turn("user", o()), turn("assistant", s(), reasoning_content=s()), turn("user", o()),
                                  turn("assistant", s(), reasoning_content=s("\n\n") + s())],
        "thoughts in the text": lambda s, o: [
            turn("user", o()), turn("assistant", "<think>\n" + s() + "\n</think>\n\n" + s()), turn("user", o()),
            turn("assistant", "<think>" + s() + "</think>" + s())],
        "a thought, then none": lambda s, o: [turn("user", o()), turn("assistant", s(), reasoning_content=s()),
                                              turn("user", o()), turn("assistant", s())],
        "thoughts and calls": lambda s, o: [
            turn("user", o()), ask(s, o, "", reasoning_content=s()), answer(o),
            turn("assistant", s(), reasoning_content=s()), turn("user", o()),
            ask(s, o, "", reasoning_content=s()), answer(o), turn("assistant", s(), reasoning_content=s()),
            turn("user", o())],
    }
    return {name: make(build) for name, build in kinds.items()}


# Texts as people write them, what templates look for among them.
FRAGMENTS = ["user", "assistant", "system: ", "The tool said: 42.", "<b>bold</b> & 'quoted' \"text\"", "a < b and c > d", "/no_think",
             "</think>", "<think>", "<tool_call>", "<tool_response>\nok\n</tool_response>", "[INST]", "<|im_end|>", "<end_of_turn>",
             "```python\nprint('x' * 3)\n```", "{\"a\": [1, 2.5, null], \"b\": \"c\"}", "- one\n- two\n\n1. three", "Grüße, 世界! 😀 नमस्ते",
             "\\n \\u00e9 \\", "https://example.com/?q=1&r=%20", "3.14159 and 1e-9", "\t tab", "  ", "\n", "", "TOOL", "none", "{{ x }}",
             "functions.f", "analysis", "final", "thought", "###", "Human: hi\nAssistant: ho", "$x^2$", "…", "A", "?"]


def random_conversations(seed, count):
    import random
    draw = random.Random(seed)

    def text(mark):
        parts = [draw.choice(FRAGMENTS) for _ in range(draw.randrange(4))]
        parts.insert(draw.randrange(len(parts) + 1), mark())
        return draw.choice(["", "", " ", "\n"]) + draw.choice([" ", "\n", ""]).join(parts) + draw.choice(["", "", " ", "\n\n"])

    for number in range(count):
        words = Words()
        said, other = (lambda: text(words.said)), (lambda: text(words.other))
        messages = [turn("system", other())] if draw.random() < 0.5 else []
        for _ in range(draw.randrange(1, 4)):
            messages.append(turn("user", other()))
            for _ in range(draw.choice([0, 0, 0, 1, 2])):
                calls = [call(draw.choice("fg"), {"x": said(), "n": draw.randrange(100), "d": {"k": [words.said()]}}, name)
                         for name in (ID, OTHER_ID)[:draw.randrange(1, 3)]]
                messages.append(turn("assistant", draw.choice(["", said()]), tool_calls=calls))
                messages += [turn("tool", other(), tool_call_id=made["id"], name=made["function"]["name"]) for made in calls]
            messages.append(turn("assistant", said()))
            if draw.random() < 0.3:
                messages[-1]["reasoning_content"] = said()
            elif draw.random() < 0.2:
                messages[-1]["content"] = "<think>\n" + words.said() + "\n</think>\n\n" + said()
        yield f"random {seed} {number}", messages


MARKED_VARIABLES = [{}, {"tools": TOOLS}, {"enable_thinking": False}]
