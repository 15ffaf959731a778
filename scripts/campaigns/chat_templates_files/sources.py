"""Where public chat templates come from, and how they stand there."""
import ast
import json
import re

# Repositories of GitHub: which files hold templates. TRL's, axolotl's and llama.cpp's are copies of published models'.
GITHUB = {
    "huggingface/trl": r"^trl/chat_templates/.*\.jinja$|^examples/scripts/.*\.jinja$|^tests/data/.*\.jinja$",
    "ikawrakow/ik_llama.cpp": r"^models/templates/.*\.jinja$",
    "axolotl-ai-cloud/axolotl": r"^src/axolotl/utils/chat_templates/templates/.*\.jinja$",
    "unslothai/unsloth": r"^studio/backend/assets/chat_templates/.*\.jinja$|^unsloth/chat_templates\.py$",
    "chujiezheng/chat_templates": r"^chat_templates/.*\.jinja$",
    "huggingface/huggingface.js": r"^packages/jinja/test/e2e\.test\.js$",
    "EricLBuehler/mistral.rs": r"^chat_templates/.*\.(jinja|json)$",
    "NVIDIA-NeMo/Automodel": r"^examples/.*\.jinja$",
    "radixark/miles": r"^miles/utils/chat_template_utils/templates/.*\.jinja$",
    "google/minja": r"^tests_files/.*\.jinja$",
    "allenai/open-instruct": r"^open_instruct/.*\.jinja$",
}
# Source distributions of PyPI: `pip download --no-deps --no-binary NAME NAME==VERSION`.
PYPI = {"llama-cpp-python==0.3.36": r"vendor/llama\.cpp/models/templates/.*\.jinja$"}


def of_python(text):
    """Strings that variables named …template hold."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if isinstance(node.value.value, str) and names and names[0].endswith("template"):
            yield names[0], node.value.value


def of_javascript(text):
    """Strings behind `chat_template:`, in backticks or quotes."""
    escapes = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
    for place, found in enumerate(re.finditer(r"""chat_template:\s*(["'`])((?:\\[\s\S]|(?!\1)[\s\S])*)\1""", text)):
        # Concatenated strings and placeholders are left out: what stands there is not the template.
        if re.match(r"\s*\+", text[found.end():]) or "${" in found[2]:
            continue
        yield str(place), re.sub(r"\\([\s\S])", lambda code: escapes.get(code[1], code[1]), found[2])


def of_file(name, text):
    """(name, source) of the templates in a file."""
    if name.endswith(".json"):
        found = json.loads(text).get("chat_template")
        found = [("", found)] if isinstance(found, str) else []
    elif name.endswith(".py"):
        found = of_python(text)
    elif name.endswith(".js"):
        found = of_javascript(text)
    else:
        found = [("", text)]
    for inner, source in found:
        if "messages" in source and "{%" in source:
            yield name + (":" + inner if inner else ""), source
