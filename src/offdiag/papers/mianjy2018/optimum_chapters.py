"""Sections 1 to 3 of [Mianjy18] in plain words, each claim next to what was measured."""

from __future__ import annotations

from offdiag.papers.claims import Chapter
from offdiag.papers.mianjy2018 import figures, measure

EXACT = 1e-9  # relative: equal up to rounding


def penalty(seed: int) -> Chapter:
    n = measure.regulariser(seed)
    white = n.pop("white_formula_on_skewed_inputs")  # only an illustration
    chapter = Chapter(
        "mianjy2018",
        "Dropout is a penalty",
        """A network x ↦ UVᵀx has r hidden units; unit i reads the input through column v_i of V and writes the output
        through column u_i of U. Dropout keeps each unit with probability θ, and divides what is kept by θ. Training
        sees the mean of the squared error over all these random networks. The paper says that this mean is the error
        without dropout, plus λ·Σ‖u_i‖²‖v_i‖² with λ = (1 − θ)/θ.

        Here a small network has 5 units, so 32 masks: their mean is computed one by one.""",
        n,
    )
    chapter.claim(
        "Eq. 2, Lemma A.1",
        f"All 32 masks averaged, against the formula: relative difference {n['mask_mean_gap']:.0e}.",
        n["mask_mean_gap"] < EXACT,
    )
    chapter.claim(
        "Section 1, E xxᵀ = I",
        f"With correlated inputs the formula gives {white:.3f} times the true "
        f"mean. With distances measured in E xxᵀ it is exact again (difference {n['skewed_mean_gap']:.0e}).",
        n["skewed_mean_gap"] < EXACT,
    )
    chapter.claim("Eq. 3", f"Summed over all 60 paths: relative difference {n['path_gap']:.0e}.", n["path_gap"] < EXACT)
    chapter.claim(
        "Contribution 1",
        f"2,000 random other factors of the same product have path norms of at least "
        f"{n['path_of_other_factors']:.3f} times that of the optimum.",
        n["path_of_other_factors"] >= 1,
    )
    chapter.claim(
        "Remark 3.1",
        f"Random factors for all units: relative difference {n['rescaling_gap']:.0e}.",
        n["rescaling_gap"] < EXACT,
    )
    chapter.claim(
        "Algorithm 1",
        "The mean of the printed update over all masks points exactly along the gradient (residual "
        f"{n['gradient_residual']:.0e}); the gradient is {n['gradient_over_printed_direction']:.6f}/θ times it.",
        n["gradient_residual"] < EXACT,
    )
    return chapter


def equal(pairs_per_width: int, seed: int) -> Chapter:
    n = measure.equalising(pairs_per_width, seed)
    eqz, givens = n.pop("eqz_seconds"), n.pop("givens_seconds")
    chapter = Chapter(
        "mianjy2018",
        "Every network can be made even",
        """Turning U into UQ with a rotation Q leaves UUᵀ, and so the network with tied weights, as it is, but changes
        how long the columns are. A matrix is called equalised if all its columns have the same length: no unit is more
        important than another. The penalty prefers that, because for a given total a sum of squares is least when all
        parts are equal. So the question is whether such a rotation always exists.""",
        n,
    )
    chapter.claim(
        "Theorem 2.2, Algorithm 2",
        f"On 14 matrices of all shapes and ranks, zero included, the squared column lengths differ by at most "
        f"{n['eqz_spread']:.0e} of their mean; at 200 columns by {n['eqz_spread_200']:.0e}.",
        n["eqz_spread"] < EXACT and n["eqz_spread_200"] < EXACT,
        correction="In the line that sums eigenvectors the index i means two things; the sum runs over all "
        "eigenvectors of the current matrix. The comment says that the first diagonal element becomes zero: it "
        f"becomes the mean (measured: {n['pivot_over_mean']:.6f} times the mean), since the trace was not subtracted.",
    )
    chapter.claim(
        "Remark 5.1",
        f"At 200 columns: {eqz:.2f} s. Rotating the longest and the shortest column into each "
        f"other, {n['rotations_200']:.0f} times, does the same in {givens * 1000:.1f} ms, "
        f"{eqz / givens:.0f} times faster, with columns equal to {n['givens_spread_200']:.0e}.",
        n["givens_spread_200"] < 1e-12 and n["rotations_200"] <= 199,
    )
    chapter.claim(
        "Remark 5.2",
        f"With the factor as printed, Z₃ and Z₄ are not rotations: ‖ZᵀZ − I‖ = {n['hadamard_printed_3']:.3f} and "
        f"{n['hadamard_printed_4']:.3f}. With 1/√2 per level the columns are equal to {n['hadamard_spread']:.0e}.",
        n["hadamard_spread"] < EXACT and n["hadamard_printed_3"] > 0.1,
        correction="The factor 2^((1−k)/2) belongs to the whole matrix; in the recursion it must be 1/√2. As "
        "printed, Z_k also has 2^(k−1) rows, not 2^k. The basis must be the full r×r one: a 3×8 matrix has a "
        f"compact basis of {n['compact_basis_columns']:.0f} columns only, too few.",
    )
    chapter.claim(
        "Theorem 3.3",
        f"Product kept to {n['joint_gap']:.0e}, lengths as stated to {n['joint_norm_gap']:.0e}.",
        n["joint_gap"] < EXACT and n["joint_norm_gap"] < EXACT,
    )
    chapter.claim(
        "Section 3, before Theorem 3.3",
        f"A search over rotations succeeded for all of {n['pairs_tried']:.0f} random pairs with 2 to 5 units: "
        f"the products differ by at most {n['worst_pair_spread']:.0e} of their mean.",
        n["worst_pair_spread"] > 1e-6,
    )
    return chapter


def optimum(seed: int) -> Chapter:
    n, shown = measure.optima(seed)
    chapter = Chapter(
        "mianjy2018",
        "The best network is a shrunken decomposition",
        """If M is what the network should compute, the best network under dropout has the singular vectors of M. Of its
        singular values only the first ρ stay, and each of these loses the same amount τ, which depends on all of them
        and on λ and r. The more dropout, the fewer and smaller they are.

        Each formula is compared with the best of several searches (L-BFGS from random starts, which knows nothing of
        it), for 12 problems, with tied weights and without.""",
        n,
    )
    chapter.claim(
        "Theorems 2.3 and 3.4",
        f"At the points that the searches found, ‖u_i‖‖v_i‖ differ by at most {n['searched_unevenness']:.0e} "
        f"of their mean, and the penalty is as stated to {n['nuclear_gap']:.0e}.",
        n["searched_unevenness"] < 1e-5 and n["nuclear_gap"] < 1e-6,
    )
    chapter.claim(
        "Theorem 3.6",
        f"Value of the closed form against the best search: relative difference at most {n['optimum_gap']:.0e}. For "
        f"singular values 5, 3, 2, 1, r = 4 and λ = 1 the value is {n['value']:.4f}; the threshold with r alone below "
        f"the line gives {n['value_with_printed_threshold']:.4f}.",
        n["optimum_gap"] < EXACT and n["value"] < n["value_with_printed_threshold"],
        correction="The threshold is λρκ/(r + λρ), as in Algorithm 3 and in the proof; in the text we had, the "
        "theorem has r alone below the line, and λ_j where λ·j is meant. And the shrunken matrix must be cut "
        f"to r singular values: of 5, 4.9, 4.8, 4.7 with r = 2 all {n['rank_uncut']:.0f} exceed the threshold, "
        f"but only {n['rank_cut']:.0f} fit.",
    )
    chapter.claim(
        "Theorem 2.4",
        f"For M = diag(2, 1, −3), r = 2 and λ = 1 the search ends at {n['tied_searched']:.4f}, the formula "
        f"with eigenvalues, negative ones left out, gives {n['tied_value']:.4f}. With singular values, as the "
        "notation section has it, the product would have an eigenvalue of "
        f"{n['printed_tied_least_eigenvalue']:.2f}, which no UUᵀ has.",
        abs(n["tied_searched"] / n["tied_value"] - 1) < EXACT,
    )
    chapter.claim(
        "Remark 2.5",
        f"A search on that problem ends at the value of the closed form, relative difference {n['problem_5_gap']:.0e}.",
        n["problem_5_gap"] < EXACT,
    )
    chapter.claim(
        "Remark 3.5",
        "With 40 exponentially falling singular values and r = 20 the rank of the optimum falls from "
        f"{shown.ranks[0]:.0f} at λ = {shown.lambdas[0]:g} to {shown.ranks[-1]:.0f} at λ = {shown.lambdas[-1]:g}.",
        bool((shown.ranks[1:] <= shown.ranks[:-1]).all()) and shown.ranks[-1] < shown.ranks[0],
    )
    chapter.claim(
        "Algorithm 3",
        f"With the rotation of all r = 4 columns the objective is {n['value']:.4f}, the minimum. Rotating only "
        f"the ρ = 3 columns of the decomposition gives {n['value_unpadded']:.4f}.",
        n["value_unpadded"] > n["value"] * (1 + EXACT),
    )
    chapter.claim(
        "Lemmas A.2 and A.3",
        f"Inverse equal to {n['lemma_a2_gap']:.0e}. The largest change of the value from one ρ to the next is "
        f"{n['lemma_a3_rise']:.1e}, as the last line of the proof says to {n['lemma_a3_gap']:.0e}; as printed "
        f"that line is off by {n['lemma_a3_printed_gap']:.1e}.",
        n["lemma_a3_rise"] <= 0 and n["lemma_a3_gap"] < EXACT,
    )
    chapter.draw(
        "shrinkage",
        "Theorem 3.6. Left: singular values of M and what the best network of width 20 keeps of them. Right: "
        "how many it keeps.",
        figures.shrinkage(shown),
    )
    return chapter
