"""
Training on a cluster
=====================

:class:`~sklstruct.distributed.DaskLanguageModel` trains a language model on the workers
of a Dask cluster. Here the cluster is two workers on this machine; nothing else changes
with a ``Client("tcp://scheduler:8786")``.
"""

import dask.bag
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.distributed import DaskLanguageModel
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import AutoSolver

sentences = load_python_topics(drop_repeated=True)[:1500]
solver = AutoSolver(tol=1e-3)
estimator = StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9, solver=solver)

# In a notebook or a program of yours ``Client()`` is enough; workers that are threads
# suit a page that is built in seconds.
cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)
client = Client(cluster)

# %%
# The text is a bag of sentences in partitions, as ``dask.bag.read_text`` gives for
# files. Each partition is counted where it is; then the contexts that end in the same
# symbol come together, and each of four shards has some of these branches.

text = dask.bag.from_sequence(sentences, npartitions=4)
trainer = DaskLanguageModel(LanguageModel(estimator, max_depth=3), n_shards=4).fit(text)
for _, contexts, pairs in trainer.shard_sizes_:
    print(f"{contexts:6} contexts, {pairs:6} pairs")

# %%
# ``compute`` copies the model to this process. The result is that of one process: the
# solver takes the same steps on all shards, as if they were one tree.

model = trainer.compute()
one = LanguageModel(estimator, max_depth=3).fit(sentences)
difference = np.abs(model.estimator_.coef_ - one.estimator_.coef_).max()
print(f"largest difference of a weight: {difference:.1e}")

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
best = one.estimator_.objective_[-1]
ax.plot(one.estimator_.objective_, lw=5, alpha=0.4, label="one process")
ax.plot(model.estimator_.objective_, "k.-", label="four shards on two workers")
ax.set(xlabel="iteration", ylabel="objective", title="The same fit")
ax.legend()
plt.show()

# %%
# The shards tell each other sums of one number per class. The number of sums does not
# depend on how many contexts there are:

n_iterations = model.estimator_.n_iter_
exchanged = trainer.n_bytes_exchanged_ / n_iterations / len(trainer.shard_sizes_)
print(f"{model.vocabulary_.size} classes, {model.backoff_model_.n_pairs} pairs")
print(f"{exchanged / 1024:.0f} KiB per iteration to and from a shard")

client.close()
cluster.close()
