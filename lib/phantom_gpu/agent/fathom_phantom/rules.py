"""What is known of LibTorch's operators by their names and schemas, for values.py to follow numbers through them."""
from fathom_phantom import collectives

# Results that are no function of the inputs, or that no CPU gives likewise.
RANDOM = ("rand", "bernoulli", "multinomial", "dropout", "normal", "exponential", "uniform", "poisson", "geometric",
          "attention")
EMPTY = ("aten::empty", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided", "aten::empty_like")
# They ask the GPU how many of a mask are true, as indexing by masks does, and make something of that size.
COUNTED = ("aten::nonzero", "aten::masked_select", "aten::masked_scatter_backward")
# The sizes of their results depend on values in other ways.
SIZED = ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::repeat_interleave", "aten::bincount")
# What they make may be there for a kernel to write into, of which no operator tells: Triton's, and those of extensions.
FILLS = ("aten::zeros", "aten::ones", "aten::full", "aten::zeros_like", "aten::ones_like", "aten::full_like",
         "aten::new_zeros", "aten::new_ones", "aten::new_full", "aten::zero_", "aten::fill_")
# Of a tensor that they are given they take the shape alone.
SHAPED = ("aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::new_zeros", "aten::new_ones",
          "aten::new_full")
# What an operand of these must be for the other not to count.
DECIDING = {"aten::bitwise_or": True, "aten::logical_or": True, "aten::bitwise_and": 0, "aten::logical_and": 0,
            "aten::mul": 0}
# Of which something comes to the CPU, or is known whatever they are given.
SPECIAL = ("aten::_local_scalar_dense", "aten::equal", "aten::_to_copy", "aten::copy_", "aten::eq", "aten::ne",
           "aten::isnan", "aten::isinf", "aten::isin", *SHAPED)
# GradScaler's look for overflow: none is found, in what nobody knows.
OVERFLOW = "aten::_amp_foreach_non_finite_check_and_unscale_"
# What torch.tensor makes a tensor of comes by a way that no mode sees.
LIFTS = ("aten::lift_fresh", "aten::lift")
# It puts another storage under a tensor, and writes into none.
SETS = "aten::set_"
ASKED, MADE_EMPTY, PLAIN, DECIDED, MOVING = range(5)  # as calls.cpp has them


class Rule:
    """What is known of an operator by its schema."""

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.is_view = func.is_view or self.name == SETS
        self.sent, self.is_collective = collectives.sent_by(self.name)
        # Of one argument alone, what is sent is what is changed; `send` changes nothing.
        self.changes_sent = self.sent == 0 and self.name.endswith("_")
        self.writes = [(i, argument.name) for i, argument in enumerate(schema.arguments)
                       if argument.alias_info is not None and argument.alias_info.is_write]
        self.overwrites = {argument.name for argument in schema.arguments if argument.is_out}
        if self.name in ("aten::copy_", "aten::fill_", "aten::zero_"):
            self.overwrites.add("self")
        self.indexes = self.name.startswith(("aten::index", "aten::_index"))
        self.kind = self.kind_of_call()
        self.repeats = (self.name.startswith("aten::") and self.name not in EMPTY
                        and not any(word in self.name for word in RANDOM))
        self.c_name = self.name.encode()  # lives as long as the process

    def kind_of_call(self):
        """What calls.cpp needs to know."""
        name = self.name
        if not name.startswith("aten::") or name in LIFTS or name == SETS:
            return ASKED
        if name in EMPTY:
            return MADE_EMPTY
        if name == "aten::_to_copy":
            return MOVING
        if name.rstrip("_") in DECIDING:
            return DECIDED
        # Neither comes anything of a plain one to the CPU, nor is anything known of it beside unknown inputs.
        special = name in (*SPECIAL, *COUNTED, *SIZED) or name == OVERFLOW or self.overwrites or self.indexes
        return ASKED if special else PLAIN
