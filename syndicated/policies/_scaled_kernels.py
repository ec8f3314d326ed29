"""Compiled steps of the ridge model in the data's own units."""

import numpy as np

from syndicated._compiled import compiled
from syndicated.policies._kernels import solve_lower, solve_upper, update_factor
from syndicated.types import Array


@compiled("f8[::1](f8[::1], f8[::1], f8[::1], i8)")
def standard(x: Array, centre: Array, unit: Array, size: int) -> Array:
    """x in the model's units, followed by the intercept's 1 if the model is longer."""
    z = np.ones(size)
    for j in range(len(x)):
        z[j] = (x[j] - centre[j]) * unit[j] if unit[j] > 0.0 else np.sign(x[j])
    return z


@compiled("b1(f8[::1], f8[::1], f8[::1], f8[::1])")
def meet(x: Array, unit: Array, low: Array, high: Array) -> bool:
    """Widen the ranges of the columns; a column that was always 0 gets its first unit. Whether there was one."""
    met = False
    for j in range(len(x)):
        low[j], high[j] = min(low[j], x[j]), max(high[j], x[j])
        if unit[j] == 0.0 and x[j] != 0.0:
            unit[j] = 1.0 / abs(x[j])
            met = True
    return met


@compiled("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8)")
def add_moments(G: Array, b: Array, sums: Array, first: Array, x: Array, y: float) -> None:
    """Σ v v' and Σ v y with v = (x - first, 1), Σ y², and how many features were not 0."""
    v = np.ones(len(b))
    for j in range(len(x)):
        v[j] = x[j] - first[j]
        sums[2] += x[j] != 0.0
    for i in range(len(v)):
        b[i] += v[i] * y
        for j in range(len(v)):
            G[i, j] += v[i] * v[j]
    sums[0] += y * y


@compiled("f8(f8[::1], f8[:,::1], f8[::1], b1)")
def along(u: Array, stack: Array, z: Array, factored: bool) -> float:
    """u = V⁻¹ z, from V⁻¹ or from the C with C C' = V; gives z' u."""
    if factored:
        u[:] = solve_upper(stack, solve_lower(stack, z))
    else:
        for i in range(len(z)):
            u[i] = 0.0
            for j in range(len(z)):
                u[i] += stack[i, j] * z[j]
    w = 0.0
    for i in range(len(z)):
        w += u[i] * z[i]
    return w


@compiled("f8(f8[:,::1], f8[::1], f8[::1], f8[::1], f8, b1)")
def follow(stack: Array, theta: Array, sums: Array, z: Array, y: float, factored: bool) -> float:
    """V⁻¹ (or its factor), theta and the sum of squares after one observation; gives 1 + z' V⁻¹ z of before."""
    u = np.empty(len(z))
    scale = 1.0 + along(u, stack, z, factored)
    error = y
    for i in range(len(z)):
        error -= theta[i] * z[i]
    if factored:
        update_factor(stack, z, 1.0)
    for i in range(len(z)):
        theta[i] += u[i] * error / scale
        if not factored:
            for j in range(len(z)):
                stack[i, j] -= u[i] * u[j] / scale
    sums[1] += error * error / scale
    return scale


@compiled(
    "f8(f8[:,::1], f8[::1], f8[::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8, b1)"
)
def observe(
    G: Array,
    b: Array,
    sums: Array,
    stack: Array,
    theta: Array,
    first: Array,
    centre: Array,
    unit: Array,
    low: Array,
    high: Array,
    x: Array,
    y: float,
    factored: bool,
) -> float:
    """One observation into everything; gives 1 + z' V⁻¹ z of before, as `follow`."""
    meet(x, unit, low, high)
    add_moments(G, b, sums, first, x, y)
    return follow(stack, theta, sums, standard(x, centre, unit, len(theta)), y, factored)
