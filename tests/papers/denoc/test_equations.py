"""Every numbered equation of the three Saha papers that states a computable fact.

`test_equation[Saha99-12]` is equation (12) of [Saha99], in the form of the errata. The table
in docs/equations-saha.md lists them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import elimination_equations as e
import motion_equations as m
import pytest
from denoc_cases import Case, chains, trees

Check = Callable[[Case], None]

SAHA99: dict[str, Check] = {
    "1": m.twist_is_angular_and_mass_centre_velocity, "2": m.blocks_of_spin_and_mass,
    "3": m.stacks_are_rows_of_blocks, "4": m.stacks_are_rows_of_blocks,
    "6": m.wrench_is_rate_of_momentum, "7": m.wrench_is_rate_of_momentum,
    "8": m.mass_rate_is_exact_on_the_twist, "9": m.wrench_is_rate_of_momentum,
    "10": m.stacks_are_rows_of_blocks, "11": m.velocities_across_a_revolute_joint,
    "12": m.twists_propagate, "13": m.propagation_of_revolute_joints,
    "14": m.propagation_composes_and_inverts, "15": m.propagation_of_prismatic_joints,
    "16": m.twist_is_complement_times_rates, "17": m.complement_is_triangular_times_diagonal,
    "18": m.constraint_wrenches_do_no_work, "19": m.complement_projects_newton_euler,
    "20": m.equations_of_motion, "21": m.inertia_from_composite_masses,
    "22": m.composite_blocks, "23a": m.composite_mass_is_a_sum,
    "23b": m.composite_mass_is_recursive, "24": m.elements_of_inertia,
    "25": m.convective_matrix, "26": m.rates_of_the_complements,
    "27": m.blocks_of_the_convective_parts, "28": m.recursions_of_the_convective_parts,
    "29": m.elements_of_the_convective_matrix, "30": m.joint_forces_from_transmitted_wrenches,
    "31": m.joint_forces_from_transmitted_wrenches,
    "32": m.recursive_inverse_dynamics_with_gravity,
    "33": e.factors_solve_the_equations, "34": e.three_steps, "35": e.three_steps,
    "36": e.three_steps, "37": e.three_steps, "40": e.modified_inertia_matrix,
    "41": e.elementary_matrices, "42": e.elementary_matrices, "43": e.elementary_matrices,
    "44": e.elementary_matrices, "45": e.elimination_steps,
    "46": e.elements_of_the_elimination, "47": e.articulated_vectors,
    "48": e.normalized_vectors, "49": e.articulated_mass_is_composite_less_what_yields,
    "50": e.articulated_mass_is_recursive, "51": e.product_of_elementary_matrices,
    "52": e.inverse_of_elementary_matrices, "53": e.upper_factor, "54": e.diagonal_factor,
    "55": e.inertia_is_its_factors,
}
SAHA03: dict[str, Check] = {
    "1": m.equations_of_motion, "2": m.inertia_from_composite_masses,
    "3": m.complement_is_triangular_times_diagonal, "4": m.twists_propagate,
    "5": m.propagation_of_revolute_joints, "6": m.elements_of_inertia,
    "7": e.product_of_elementary_matrices, "8": e.inverse_of_elementary_matrices,
    "9": e.upper_factor, "10": e.diagonal_factor, "11": e.inertia_is_its_factors,
    "12": e.three_steps, "13": e.three_steps, "14": e.three_steps, "15": e.three_steps,
    "16": e.blocks_of_the_articulated_mass, "17": e.blocks_of_the_articulated_mass,
    "19": e.modified_inertia_matrix, "20": e.elementary_matrices, "21": e.elementary_matrices,
    "22": e.elementary_matrices, "23": e.elementary_matrices, "24": e.elimination_steps,
    "25": e.elements_of_the_elimination, "26": e.articulated_vectors,
    "27": e.normalized_vectors, "28": e.articulated_mass_is_recursive,
}
SAHA99B: dict[str, Check] = {
    "1": m.twist_is_angular_and_mass_centre_velocity, "2": m.mass_rate_is_exact_on_the_twist,
    "3": m.stacks_are_rows_of_blocks, "4": m.stacks_are_rows_of_blocks,
    "6": m.wrench_is_rate_of_momentum, "7": m.wrench_is_rate_of_momentum,
    "8": m.wrench_is_rate_of_momentum, "9": m.velocities_across_a_revolute_joint,
    "10": m.twists_propagate, "11": m.propagation_of_revolute_joints,
    "12": m.propagation_composes_and_inverts, "13": m.propagation_of_prismatic_joints,
    "14": m.twist_is_complement_times_rates, "15": m.complement_is_triangular_times_diagonal,
    "16": m.constraint_wrenches_do_no_work, "17": m.complement_projects_newton_euler,
    "18": m.equations_of_motion, "19": m.inertia_from_composite_masses,
    "20": m.composite_blocks, "21": m.composite_mass_is_recursive, "22": m.elements_of_inertia,
    "23": e.elementary_matrices, "24": e.elementary_matrices, "25": e.elementary_matrices,
    "26": e.product_of_elementary_matrices, "27": e.upper_factor,
    "28": e.inverse_of_elementary_matrices, "29": e.neighbouring_inverses_add,
    "30": e.upper_factor, "31": e.diagonal_factor, "32": e.inertia_is_its_factors,
    "33": e.upper_factor, "34": e.factors_from_articulated_masses,
    "35": e.articulation_transformation, "36": e.inverse_from_factors,
    "37": e.neighbouring_elementary_matrices, "38": e.inverse_of_the_upper_factor,
    "39": e.inverse_of_the_upper_factor, "40": e.inverse_of_the_upper_factor,
    "41": e.elements_of_the_inverse_factor, "49": e.modified_inertia_matrix,
    "50": e.elements_of_the_elimination, "51": e.elementary_matrices,
}
ELSEWHERE = {
    "Saha99-5", "Saha99-38", "Saha99-39", "Saha03-18", "Saha99b-5",
    *(f"Saha99b-{number}" for number in range(42, 49)),
}
"""Notation, reference trajectories (tests/algorithms/test_reference.py), the planar arm
(test_planar_closed_form.py)."""

EQUATIONS = {f"{paper}-{number}": check for paper, table in (
    ("Saha99", SAHA99), ("Saha03", SAHA03), ("Saha99b", SAHA99B))
    for number, check in table.items()}

equation = pytest.mark.parametrize("check", EQUATIONS.values(), ids=EQUATIONS)


@cache
def assert_holds(check: Check, cases: Callable[[], tuple[Case, ...]]) -> None:
    """Once for all equations that state the same."""
    for case in cases():
        check(case)


@pytest.mark.slow
@equation
def test_equation(check):
    assert_holds(check, chains)


@equation
def test_equation_on_trees(check):
    assert_holds(check, trees)


def test_the_documentation_lists_every_equation():
    text = (Path(__file__).parents[3] / "docs" / "equations-saha.md").read_text("utf-8")
    listed = set()
    paper = ""
    for line in text.splitlines():
        if heading := re.match(r"## \[(\w+)\]", line):
            paper = heading[1]
        elif row := re.match(r"\| (\d+[ab]?) \|.*\|(.*)\|", line):
            name = f"{paper}-{row[1]}"
            listed.add(name)
            if name in EQUATIONS:
                assert f"`{EQUATIONS[name].__name__}`" in row[2], name
    assert listed == set(EQUATIONS) | ELSEWHERE
