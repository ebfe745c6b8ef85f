"""The order of the reference: pages by task, and for each the names that serve it."""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    """A page of the reference."""

    page: str
    title: str
    about: str
    """One or two sentences, in reStructuredText."""
    names: str
    """Public names, without `nlink.`."""


TASKS = (
    Task("models", "Load, build and save a robot",
         "A robot comes from a file, by :doc:`its name </robots>`, from a table, or from links "
         "and joints written in Python. :doc:`/formats` says what the files may contain.",
         "load robots Description Link Joint Frame Limits Friction Mimic Gear Loop Coupled DH "
         "Mount Pose together free_body NonPhysicalWarning"),
    Task("robot", "What a robot computes",
         "Every method takes one state, or arrays of states with any leading dimensions "
         "(:doc:`/notation`).", "Robot"),
    Task("simulation", "Simulate",
         "Free fall, given forces, controllers, events, joint limits, friction, loops and "
         "contact: see :doc:`/simulation` and :doc:`/system`.",
         "simulate simulation.Run load_run Stepper System Event Prescribed Physics Solver Saving "
         "live Slider threads"),
    Task("controllers", "Controllers and trajectories",
         "Arguments of ``tau`` and ``desired``; a function of t, q and qd is a controller, too. "
         "See :doc:`/controllers`.",
         "simulation.PD simulation.PDGravity simulation.PID simulation.ComputedTorque "
         "simulation.OperationalSpace simulation.GravityCompensation simulation.FeedForward "
         "simulation.Actuated simulation.Sampled simulation.Saturated simulation.Noisy "
         "simulation.Payload simulation.Rest simulation.Cycloid simulation.Quintic "
         "simulation.Spline simulation.apply solve"),
    Task("functions", "Functions inside controllers, events and costs",
         "They take numbers, arrays and traced values. :doc:`/adding-a-scalar` has a table of "
         "their values at NaN and of their derivatives.",
         "sin cos tanh exp log sqrt pow atan2 abs sign floor minimum maximum clip where less "
         "less_equal"),
    Task("reaching", "Inverse kinematics and paths",
         "From poses and points to joint positions, and to motions that keep the joints' limits: "
         "see :doc:`/reaching`.",
         "ik ik_all reach Arc ReachPose ReachPosition ReachOrientation AlignAxis LookAt "
         "ReachMassCenter"),
    Task("contact", "Contact", "Shapes of links, and the world that they touch: "
         "see :doc:`/contact`.",
         "World HeightField Sphere Capsule Cylinder Box Ellipsoid Hull"),
    Task("derivatives", "Derivatives and linear models",
         "Of everything a robot computes, of functions of your own, and of simulations: "
         "see :doc:`/derivatives`.",
         "function jvp vjp hvp parameter_derivatives linearize adjoint"),
    Task("optimization", "Optimal control", "Forces of least cost over a time, and controllers "
         "that plan while the robot moves: see :doc:`/optimal-control`.", "optimize mpc"),
    Task("identification", "Identify a robot from logs", "Masses, friction, payloads and gains "
         "of drives from measurements: see :doc:`/identification`.",
         "excite read_log identify base_parameters"),
    Task("sweeps", "Sweeps over many simulations",
         "Studies of thousands to billions of trajectories, on this machine or a cluster: "
         "see :doc:`/scale`.",
         "sweep open_sweep studies.SweepResult studies.Uniform studies.LogUniform studies.Normal "
         "studies.Study studies.read_study studies.run_study studies.ChunksFailed"),
    Task("export", "Equations, operation counts, C and WebAssembly",
         "Other forms of what a robot computes: see :doc:`/back-ends`.",
         "symbolic count Count export_c export_wasm"),
    Task("frameworks", "Inside CasADi, JAX, PyTorch, Numba and Gymnasium",
         "Each module needs its extra, such as ``pip install \".[jax]\"`` in a clone: "
         "see :doc:`/frameworks`, :doc:`/environments` and :doc:`/back-ends`.",
         "casadi.function casadi.step jax.function jax.step jax.rollout torch.function "
         "torch.step torch.rollout numba.function numba.step gym.VectorEnv gym.Env"),
    Task("joints", "Joint types", "Those that nlink has, and the contract for "
         ":doc:`types of your own </adding-a-joint>`.",
         "Revolute Prismatic Helical Universal Spherical Planar Free Fixed JointType AxialJoint "
         "Displacement"),
    Task("rotations", "Rotations and poses",
         "Conversions, over arrays with any leading dimensions. Quaternions are (w, x, y, z), "
         "twists are (angular, linear).",
         "matrix_from_rpy rpy_from_matrix matrix_from_quaternion quaternion_from_matrix exp3 log3 "
         "exp6 log6"),
    Task("checks", "Check a robot, and test code with random ones",
         "The laws of mechanics as tests: see :doc:`/reliability`.",
         "check testing.CheckReport testing.CheckRow testing.Finding testing.findings "
         "testing.LAWS testing.Law testing.Samples testing.samples testing.robots "
         "testing.random_robot testing.random_description testing.random_closed_robot "
         "testing.random_arms testing.close_at_random"),
)

MEMBERS = (
    ("Dynamics", "inverse_dynamics forward_dynamics mass_matrix inverse_mass_matrix solve bias "
     "gravity_torque coriolis_matrix contact_problem"),
    ("Positions, velocities and Jacobians", "pose poses jacobian jacobian_dot_qd jacobian_rate "
     "frame_velocity frame_acceleration link_accelerations operational_inertia manipulability "
     "manipulability_gradient limit_distance ik velocity_ik"),
    ("The whole body: energy, momentum, centre of mass", "kinetic_energy potential_energy "
     "center_of_mass com_jacobian com_jacobian_dot_qd centroidal_momentum "
     "centroidal_momentum_matrix centroidal_momentum_drift"),
    ("Derivatives", "inverse_dynamics_derivatives forward_dynamics_derivatives "
     "mass_matrix_derivatives jacobian_derivatives"),
    ("Regressors: forces and energies are linear in the parameters", "parameters parameter_names "
     "regressor momentum_regressor energy_regressor"),
    ("Factors and operators of the papers", "factor_mass_matrix operators diagonal"),
    ("Configurations", "neutral random_state integrate difference"),
    ("Names, sizes and limits", "name n nq q_names qd_names q_index qd_index frames joints "
     "moving_joints links limits actuated actuators gravity inertias report"),
    ("Other robots from this one", "with_payload with_friction with_armature with_gravity "
     "with_base with_contacts with_loops with_gears lock sub geared loops tree from_dh"),
    ("Files and pictures", "save to_toml png view"),
    ("Any computation by its name", "compute compile"),
    ("For code that extends nlink", "mechanism request call_ports"),
)
"""The members of `Robot` by task; those that are not named here come last."""
