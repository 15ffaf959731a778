"""An update by AdamW in mixed types as fathom's CUDA kernel takes it, and the same by PyTorch's operators in FP64.

For kernels_against_torch.py.
"""

import ctypes
import dataclasses

import torch

BLOCK = 256  # values of a scale
BETAS = (1 - 2**-3, 1 - 2**-10)  # FP32 has them and what is missing to 1
EPSILON, RATE, DECAY, STEP, FACTOR = 1e-8, 1e-3, 0.1, 7, 0.5
ALLOWED = {torch.float32: 2e-6, torch.bfloat16: 4e-3}  # rounded to nearest; relative to the norm
SHARE = 2e-3  # of codes, and of numbers rounded by chance, that a last digit of FP32 may take to the neighbour


class Rows(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int)]


class UpdatedParameter(ctypes.Structure):
    """Of lib/ops/cuda/kernels.h."""

    _fields_ = [
        ("stored", Rows),
        ("masters", ctypes.c_void_p),
        ("masters_unset", ctypes.c_bool),
        ("stochastic", ctypes.c_bool),
        ("gradient", Rows),
        ("first", Rows),
        ("second", Rows),
        ("first_codes", ctypes.c_void_p),
        ("first_scales", ctypes.c_void_p),
        ("second_codes", ctypes.c_void_p),
        ("second_scales", ctypes.c_void_p),
        ("draws", ctypes.c_uint32 * 2),
        ("origin", ctypes.c_int64),
        ("elements", ctypes.c_int64),
        ("decays", ctypes.c_bool),
        ("nearest_moments", ctypes.c_bool),
    ]


class Table(ctypes.Structure):
    _fields_ = [("values", ctypes.c_void_p), ("midpoints", ctypes.c_void_p), ("zero", ctypes.c_int)]


class Update(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_double) for name in ("unused", "beta1", "beta2", "epsilon", "keep", "rate", "root_second")],
        ("factor", ctypes.c_void_p),
        ("first", Table),
        ("second", Table),
    ]


@dataclasses.dataclass(frozen=True)
class Storage:
    title: str
    weights: torch.dtype
    moments: torch.dtype  # uint8: codes
    masters: bool = False
    stochastic: bool = False

    def is_plain(self):
        """AdamW of one type, whose second moments are rounded to nearest too."""
        return self.weights == self.moments and not self.stochastic


STORAGES = [
    Storage("FP32, codes", torch.float32, torch.uint8),
    Storage("BF16, codes", torch.bfloat16, torch.uint8),
    Storage("BF16 by chance, codes", torch.bfloat16, torch.uint8, stochastic=True),
    Storage("BF16 with masters, codes", torch.bfloat16, torch.uint8, masters=True),
    Storage("FP32, BF16 moments", torch.float32, torch.bfloat16),
    Storage("BF16 by chance, BF16 moments", torch.bfloat16, torch.bfloat16, stochastic=True),
    Storage("BF16 with masters, FP32 moments", torch.bfloat16, torch.float32, masters=True),
    Storage("FP32 alone", torch.float32, torch.float32),
    Storage("BF16 alone", torch.bfloat16, torch.bfloat16),
]


def rows(tensor):
    return Rows(tensor.data_ptr(), 0 if tensor.dtype == torch.float32 else 1)


def dynamic_map(with_signs):
    """The values of the 256 codes, ascending (Dettmers et al. 2022, arXiv 2110.02861)."""
    values = [0.0, 1.0]
    for exponent in range(7):
        borders = torch.linspace(0.1, 1, 2 ** (exponent + (0 if with_signs else 1)) + 1)
        means = 10.0 ** (exponent - 6) * (borders[1:] + borders[:-1]) / 2
        values += [*means.tolist(), *((-means).tolist() if with_signs else [])]
    return torch.tensor(sorted(values))


def draws_of(key, count, device):
    """lib/cpu/stochastic_rounding.h, of elements below 2^32."""
    low, mask = torch.arange(count, device=device), 0xFFFFFFFF
    bits = low ^ key[0]
    bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) & mask
    bits = (((bits ^ (bits >> 15)) + key[1]) * 0x846CA68B) & mask
    return bits ^ (bits >> 16)


def rounded_by_chance(values, sixteen_bits):
    bits = values.float().view(torch.int32).long() & 0xFFFFFFFF
    kept = ((bits + sixteen_bits) & 0xFFFFFFFF) >> 16
    return (kept << 16).to(torch.int64).sub((kept >> 15) << 32).to(torch.int32).view(torch.float32)


class Codes:
    def __init__(self, with_signs, count, device, spread):
        self.table = dynamic_map(with_signs).to(device)
        self.midpoints = (self.table[1:] + self.table[:-1]) / 2
        self.zero = 127 if with_signs else 0
        self.codes = torch.randint(0, 256, [count], dtype=torch.uint8, device=device)
        self.scales = torch.rand(-(-count // BLOCK), device=device) * spread + spread

    def values(self):
        return self.table.double()[self.codes.long()] * self.scales.double().repeat_interleave(BLOCK)[: len(self.codes)]

    def quantized(self, values):
        """Scales and codes of other values."""
        padded = torch.nn.functional.pad(values, [0, -len(values) % BLOCK]).view(-1, BLOCK)
        scales = padded.abs().amax(1)
        return scales, torch.bucketize((padded / scales[:, None]).flatten()[: len(values)], self.midpoints.double())


class Parameter:
    def __init__(self, storage, count, place, device):
        def draw(spread):
            return torch.randn(count, device=device) * spread

        self.storage, self.decays, self.key = storage, place % 2 == 0, (0x9E3779B9 + place, 0x7F4A7C15 + 3 * place)
        self.weights, self.gradient = draw(1).to(storage.weights), draw(0.1).to(storage.weights)
        self.masters = draw(1) if storage.masters else None
        if storage.moments == torch.uint8:
            self.first, self.second = Codes(True, count, device, 0.1), Codes(False, count, device, 0.01)
        else:
            self.first, self.second = draw(0.1).to(storage.moments), draw(0.01).abs().to(storage.moments)

    def moments(self):
        both = (self.first, self.second)
        return [moment.values() if isinstance(moment, Codes) else moment.double() for moment in both]

    def expected(self):
        """Weights, and moments as codes' scales and codes or as numbers, in FP64."""
        m, v = self.moments()
        p, g = (self.masters if self.masters is not None else self.weights).double(), self.gradient.double() * FACTOR
        m = BETAS[0] * m + (1 - BETAS[0]) * g
        v = BETAS[1] * v + (1 - BETAS[1]) * g * g
        root = (v / (1 - BETAS[1] ** STEP)).sqrt() + EPSILON
        p = p * (1 - RATE * DECAY if self.decays else 1) - RATE / (1 - BETAS[0] ** STEP) * m / root
        return p, m, v

    def as_struct(self):
        parameter = UpdatedParameter(
            stored=rows(self.weights),
            masters=self.masters.data_ptr() if self.masters is not None else None,
            stochastic=self.storage.stochastic,
            gradient=rows(self.gradient),
            draws=(ctypes.c_uint32 * 2)(*self.key),
            elements=len(self.weights),
            decays=self.decays,
            nearest_moments=self.storage.is_plain(),
        )
        if isinstance(self.first, Codes):
            parameter.first_codes, parameter.first_scales = self.first.codes.data_ptr(), self.first.scales.data_ptr()
            parameter.second_codes, parameter.second_scales = self.second.codes.data_ptr(), self.second.scales.data_ptr()
        else:
            parameter.first, parameter.second = rows(self.first), rows(self.second)
        return parameter

    def differences(self, expected):
        p, m, v = expected
        draws = draws_of(self.key, len(p), p.device)
        yield from self.of_weights(p, draws)
        for name, moment, values in (("first moment", self.first, m), ("second moment", self.second, v)):
            if isinstance(moment, Codes):
                scales, codes = moment.quantized(values)
                yield f"scales of {name}", relative(moment.scales, scales), ALLOWED[torch.float32]
                yield f"codes of {name}", share(moment.codes.long() != codes), SHARE
            elif moment.dtype == torch.bfloat16 and name == "second moment" and not self.storage.is_plain():
                yield name, share(moment.float() != rounded_by_chance(values, draws & 0xFFFF)), SHARE
            else:
                yield name, relative(moment, values), ALLOWED[moment.dtype]

    def of_weights(self, p, draws):
        if self.masters is not None:
            yield "masters", relative(self.masters, p), ALLOWED[torch.float32]
        if self.storage.stochastic:
            yield "weights", share(self.weights.float() != rounded_by_chance(p, draws >> 16)), SHARE
        else:
            yield "weights", relative(self.weights, p), ALLOWED[self.weights.dtype]


def relative(actual, expected):
    return ((actual.double() - expected).norm() / (expected.norm() + 1e-30)).item()


def share(mask):
    """Of many; of few numbers one may differ."""
    return max(0, mask.sum().item() - 1) / len(mask)


class MixedAdamW:
    def __init__(self, storage, sizes, device):
        self.storage = storage
        self.parameters = [Parameter(storage, size, place, device) for place, size in enumerate(sizes)]
        self.factor = torch.tensor(FACTOR, device=device)
        update = Update(beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, keep=1 - RATE * DECAY)
        update.rate, update.root_second = RATE / (1 - BETAS[0] ** STEP), (1 - BETAS[1] ** STEP) ** 0.5
        update.factor = self.factor.data_ptr()
        first, second = self.parameters[0].first, self.parameters[0].second
        if isinstance(first, Codes):
            update.first, update.second = (
                Table(codes.table.data_ptr(), codes.midpoints.data_ptr(), codes.zero) for codes in (first, second)
            )
        self.update = update
        self.structs = (UpdatedParameter * len(sizes))(*[parameter.as_struct() for parameter in self.parameters])

    def together_with(self, others):
        """One call's parameters: these and those of others. The numbers of a step are the same for all."""
        self.structs = (UpdatedParameter * sum(len(update.structs) for update in (self, *others)))(
            *self.structs, *[struct for update in others for struct in update.structs]
        )

    def call(self, kernel):
        return kernel(ctypes.byref(self.update), self.structs, len(self.structs), None)

    def expected(self):
        return [parameter.expected() for parameter in self.parameters]

    def differences(self, expected):
        """The largest of each kind of number over all parameters."""
        largest = {}
        for parameter, wanted in zip(self.parameters, expected, strict=True):
            for name, difference, allowed in parameter.differences(wanted):
                before = largest.get(name, (0, allowed))[0]
                largest[name] = (max(before, difference) if difference == difference else difference, allowed)
        return [(name, *both) for name, both in largest.items()]

    def timing(self, kernel, repeats=20):
        """Milliseconds of an update, and what it reads and writes in that time."""
        for _ in range(3):
            self.call(kernel)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            self.call(kernel)
        end.record()
        torch.cuda.synchronize()
        milliseconds = start.elapsed_time(end) / repeats
        moment = self.storage.moments.itemsize + (4 / BLOCK if self.storage.moments == torch.uint8 else 0)
        weights = self.storage.weights.itemsize
        kept = 8 + weights if self.storage.masters else 2 * weights
        count = sum(len(parameter.weights) for parameter in self.parameters)
        return {
            "what": f"AdamW, {self.storage.title}, of {count:,}",
            "ms": milliseconds,
            "GB/s": count * (weights + kept + 4 * moment) / milliseconds / 1e6,
        }
