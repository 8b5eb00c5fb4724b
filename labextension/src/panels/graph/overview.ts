// The graph as one image: used when there are too many boxes in view to draw them one by one.

import { type Image, makeImage, rasterTasks } from '../../draw/raster';
import type { Scene } from '../../draw/scene';

export class Overview {
  private image: { target: Image; data: ImageData } | null = null;

  /** The canvas has another size. */
  forget(): void {
    this.image = null;
  }

  /** Draw over the whole canvas; `ratio` is device pixels per pixel of the view. */
  draw(pen: CanvasRenderingContext2D, scene: Scene, ratio: number): void {
    if (!this.image) {
      const { width, height } = pen.canvas;
      const target = makeImage(width, height);
      const bytes = new Uint8ClampedArray(target.pixels.buffer as ArrayBuffer);
      this.image = { target, data: new ImageData(bytes, width, height) };
    }
    rasterTasks(this.image.target, scene, ratio);
    pen.putImageData(this.image.data, 0, 0);
  }
}
