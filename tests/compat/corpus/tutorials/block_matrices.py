"""From the examples of the tutorial: matrices in blocks, whose product is a graph of tasks."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
BLOCK = 4


@ray.remote
def product(*blocks):
    n = len(blocks) // 2
    return sum(a @ b for a, b in zip(blocks[:n], blocks[n:]))


@ray.remote
def transposed(block):
    return block.T


class Blocks:
    def __init__(self, refs):
        self.refs = refs

    @classmethod
    def of(cls, matrix):
        n = len(matrix) // BLOCK
        return cls([[ray.put(matrix[BLOCK * i:BLOCK * (i + 1), BLOCK * j:BLOCK * (j + 1)]) for j in range(n)] for i in range(n)])

    def __matmul__(self, other):
        return Blocks([[product.remote(*row, *column) for column in zip(*other.refs)] for row in self.refs])

    @property
    def T(self):
        return Blocks([[transposed.remote(block) for block in column] for column in zip(*self.refs)])

    def assemble(self):
        return np.block([ray.get(row) for row in self.refs])


a, b = np.arange(144).reshape(12, 12) % 7, np.arange(144).reshape(12, 12) % 5
print(np.array_equal((Blocks.of(a) @ Blocks.of(b)).assemble(), a @ b))
print(np.array_equal((Blocks.of(a).T @ Blocks.of(a)).assemble(), a.T @ a), int(Blocks.of(a).assemble().sum()))
