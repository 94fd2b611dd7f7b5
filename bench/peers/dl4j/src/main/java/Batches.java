import java.util.List;
import java.util.NoSuchElementException;
import java.util.Random;
import org.nd4j.linalg.api.ndarray.INDArray;
import org.nd4j.linalg.dataset.DataSet;
import org.nd4j.linalg.dataset.api.DataSetPreProcessor;
import org.nd4j.linalg.dataset.api.iterator.DataSetIterator;
import org.nd4j.linalg.factory.Nd4j;

/**
 * Minibatches of gray images: bytes in memory, picked in shuffled order and scaled to 0..1 when they are asked for, which is on
 * the prefetching thread. A limit cuts it short or lets it go over the data again, in a new order.
 */
final class Batches implements DataSetIterator {
    private static final int CLASSES = 10;

    private final Idx images;
    private final Idx labels;
    private final int batch;
    private final int limit;
    private final Random random; // null: in order
    private final int[] order;
    private int given;

    Batches(Idx images, Idx labels, int batch, int limit, Random random) {
        this.images = images;
        this.labels = labels;
        this.batch = batch;
        this.limit = limit;
        this.random = random;
        order = new int[labels.values().length];
        for (int example = 0; example < order.length; example++) {
            order[example] = example;
        }
    }

    /** All of the data once; a short batch at the end is left out. */
    static Batches epoch(Idx images, Idx labels, int batch, Random random) {
        return new Batches(images, labels, batch, labels.values().length / batch, random);
    }

    @Override
    public boolean hasNext() {
        return given < limit;
    }

    @Override
    public DataSet next() {
        if (!hasNext()) {
            throw new NoSuchElementException("all " + limit + " minibatches were taken");
        }
        int perEpoch = order.length / batch;
        int start = given % perEpoch * batch;
        if (start == 0 && random != null) {
            shuffle();
        }
        given++;
        int height = images.sizes()[1];
        int width = images.sizes()[2];
        int size = height * width;
        float[] pixels = new float[batch * size];
        float[] wanted = new float[batch * CLASSES];
        for (int row = 0; row < batch; row++) {
            int example = order[start + row];
            for (int pixel = 0; pixel < size; pixel++) {
                pixels[row * size + pixel] = (images.values()[example * size + pixel] & 0xff) * (1f / 255);
            }
            wanted[row * CLASSES + labels.values()[example]] = 1;
        }
        INDArray features = Nd4j.create(pixels, new long[] {batch, 1, height, width}, 'c');
        return new DataSet(features, Nd4j.create(wanted, new long[] {batch, CLASSES}, 'c'));
    }

    private void shuffle() {
        for (int last = order.length - 1; last > 0; last--) {
            int other = random.nextInt(last + 1);
            int kept = order[last];
            order[last] = order[other];
            order[other] = kept;
        }
    }

    @Override
    public DataSet next(int examples) {
        throw new UnsupportedOperationException("the size of a minibatch is fixed");
    }

    @Override
    public void reset() {
        given = 0;
    }

    @Override
    public boolean resetSupported() {
        return true;
    }

    @Override
    public boolean asyncSupported() {
        return true;
    }

    @Override
    public int batch() {
        return batch;
    }

    @Override
    public int inputColumns() {
        return images.sizes()[1] * images.sizes()[2];
    }

    @Override
    public int totalOutcomes() {
        return CLASSES;
    }

    @Override
    public void setPreProcessor(DataSetPreProcessor preProcessor) {
        throw new UnsupportedOperationException("pixels are scaled already");
    }

    @Override
    public DataSetPreProcessor getPreProcessor() {
        return null;
    }

    @Override
    public List<String> getLabels() {
        return null;
    }
}
