// CUPTI, which profilers ask for a GPU's kernels: it has none to tell of, and says so in words.
int cuptiGetResultString(int result, const char** text);

int cuptiGetResultString(int result, const char** text) {
  (void)result;
  *text = "not supported by the phantom GPU";
  return 0;
}
