"""Simple statistics over a list of numbers, and the comparison of two.

Numbers are taken as the decimals that the caller wrote, so that 0.1 + 0.2 is 0.3 and 12.3 - 12.1 is 0.2.
Sums are exact and rounded once, at the end; whole numbers in, whole number out, where the result is one.
"""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, setcontext

from openskill_sdk import Fields, run
from openskill_sdk.arguments import kind
from openskill_sdk.errors import invalid

OPS = ("mean", "median", "min", "max", "sum")
MAX_NUMBERS = 100_000


def handle(input):
    fields = Fields(input)
    numbers = fields.array("numbers", 1, MAX_NUMBERS, required=True)
    ops = fields.array("ops", 1, 100, required=True)
    compare = fields.object("compare", default=None)
    fields.done()
    for index, number in enumerate(numbers):
        check_number(number, f"numbers[{index}]")
    for index, op in enumerate(ops):
        if op not in OPS:
            raise invalid(f"ops[{index}]", "must be one of " + ", ".join(OPS))
    # Wide enough for the exact sum of any doubles.
    setcontext(Context(prec=1200, Emax=MAX_EMAX, Emin=MIN_EMIN))

    data = {"results": {op: calculate(op, numbers) for op in ops}}
    if compare is not None:
        data["comparison"] = comparison(compare)
    return data


def calculate(op, numbers):
    if op in ("min", "max"):
        return min(numbers) if op == "min" else max(numbers)
    if op == "median":
        ordered, middle = sorted(numbers), len(numbers) // 2
        numbers = ordered[middle:middle + 1] if len(ordered) % 2 else ordered[middle - 1:middle + 1]
    total = sum(map(decimal, numbers), Decimal(0))
    whole = all(isinstance(number, int) for number in numbers)
    return plain(total if op == "sum" else total / len(numbers), whole, "numbers")


def comparison(compare):
    a, b = compare.any("a"), compare.any("b")
    compare.done()
    check_number(a, "compare.a")
    check_number(b, "compare.b")
    whole = isinstance(a, int) and isinstance(b, int)
    return {
        "larger": "equal" if a == b else "a" if a > b else "b",
        "smaller": "equal" if a == b else "a" if a < b else "b",
        "larger_value": max(a, b),
        "smaller_value": min(a, b),
        "difference": plain(abs(decimal(a) - decimal(b)), whole, "compare"),
    }


def check_number(value, field):
    if kind(value) != "number":
        raise invalid(field, f"must be a number, not {kind(value)}")
    try:
        finite = abs(float(value)) != float("inf")
    except OverflowError:
        finite = False
    if not finite:
        raise invalid(field, "is too large for a number; at most about 1.8e308")


def decimal(number):
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def plain(value, whole, field):
    """The decimal as a JSON number: an integer if all its inputs were integers and it is one."""
    result = float(value)
    if abs(result) == float("inf"):
        raise invalid(field, "the result is too large for a number")
    if whole and value == value.to_integral_value():
        return int(value)
    return result + 0.0  # -0.0 becomes 0.0


if __name__ == "__main__":
    run(handle)
