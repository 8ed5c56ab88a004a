"""
Restoring noisy pictures on a grid
==================================

A fifth of the pixels of small binary pictures was flipped. Each pixel is a variable
with the values 0 and 1, and is joined with its neighbours. `SampleRankClassifier`
learns the weights of the observed pixel and of the neighbouring pixels, and searches
for the best picture.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from sklstruct.factor_graph import SampleRankClassifier, grid_graph

rng = np.random.default_rng(0)
row, column = np.mgrid[:16, :16]


def picture():
    """Two discs or squares."""
    clean = np.zeros((16, 16), dtype=int)
    for _ in range(2):
        a, b = rng.uniform(2, 14, size=2)
        r = rng.uniform(3, 6)
        disc = (row - a) ** 2 + (column - b) ** 2 < r * r
        square = (abs(row - a) < r) & (abs(column - b) < r)
        clean |= disc if rng.random() < 0.5 else square
    return clean


clean = [picture() for _ in range(150)]
noisy = [np.where(rng.random(p.shape) < 0.2, 1 - p, p) for p in clean]

# %%
# Each pixel has two features: a constant, and the observed value. The edges have a
# weight for each pair of values.
X = [grid_graph([0, 1], np.stack([np.ones_like(p), p], axis=2)) for p in noisy]
y = [p.ravel() for p in clean]
model = SampleRankClassifier(random_state=0).fit(X[:100], y[:100])
as_seen = np.mean([a == b for a, b in zip(noisy[100:], clean[100:])])
print(f"pixels right as seen  {as_seen:.3f}")
for inference in ("icm", "anneal"):
    model.set_params(inference=inference)
    print(f"restored by {inference:9} {model.score(X[100:], y[100:]):.3f}")

# %%
# Coordinate ascent changes one pixel at a time and stops in a local optimum. Annealing
# finds a picture with a higher score of the same model.
for inference in ("icm", "anneal"):
    found = model.set_params(inference=inference).predict(X[100:])
    print(
        f"score found by {inference:9} {model.joint_score(X[100:], found).mean():.2f}"
    )

# %%
# The picture shows four test pictures. The last row shows how often a pixel was 1 while
# pictures were sampled from the scores. Grey pixels are uncertain. These shares are not
# calibrated.
restored = model.predict(X[100:104])
shares = model.predict_marginals(X[100:104], n_sweeps=200)
fig, axes = plt.subplots(4, 4, figsize=(7, 7.6), layout="constrained")
for i, column_of_axes in enumerate(axes.T):
    shown = [
        clean[100 + i],
        noisy[100 + i],
        restored[i].reshape(16, 16),
        np.array([share[1] for share in shares[i]]).reshape(16, 16),
    ]
    for ax, p in zip(column_of_axes, shown):
        ax.imshow(p, cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
for ax, name in zip(axes[:, 0], ("clean", "seen", "restored", "share of 1")):
    ax.set_ylabel(name)
plt.show()
