"""Conway's game: a board as an actor, its rows as tasks."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def next_rows(board, start, stop):
    rows = []
    n = len(board)
    for y in range(start, stop):
        row = []
        for x in range(n):
            neighbours = sum(board[(y + dy) % n][(x + dx) % n] for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dx or dy)
            row.append(1 if neighbours == 3 or (board[y][x] and neighbours == 2) else 0)
        rows.append(row)
    return rows


@ray.remote(num_cpus=0)
class Game:
    def __init__(self, board):
        self.boards = [board]

    def step(self, n=1):
        for _ in range(n):
            board = ray.put(self.boards[-1])
            size = len(self.boards[-1])
            parts = ray.get([next_rows.remote(board, y, min(y + 3, size)) for y in range(0, size, 3)])
            self.boards.append(np.array(sum(parts, [])))
        return len(self.boards) - 1

    def show(self):
        return "\n".join("".join(".#"[cell] for cell in row) for row in self.boards[-1])


board = np.zeros((6, 6), dtype=int)
for y, x in (0, 1), (1, 2), (2, 0), (2, 1), (2, 2):
    board[y, x] = 1
game = Game.remote(board)
print(ray.get(game.step.remote(4)))
print(ray.get(game.show.remote()))
