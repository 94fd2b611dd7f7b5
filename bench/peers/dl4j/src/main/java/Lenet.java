import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.deeplearning4j.nn.conf.MultiLayerConfiguration;
import org.deeplearning4j.nn.conf.NeuralNetConfiguration;
import org.deeplearning4j.nn.conf.inputs.InputType;
import org.deeplearning4j.nn.conf.layers.ConvolutionLayer;
import org.deeplearning4j.nn.conf.layers.DenseLayer;
import org.deeplearning4j.nn.conf.layers.OutputLayer;
import org.deeplearning4j.nn.conf.layers.SubsamplingLayer;
import org.deeplearning4j.nn.multilayer.MultiLayerNetwork;
import org.deeplearning4j.nn.weights.WeightInit;
import org.deeplearning4j.parallelism.ParallelWrapper;
import org.nd4j.linalg.activations.Activation;
import org.nd4j.linalg.learning.config.Nesterovs;
import org.nd4j.linalg.lossfunctions.LossFunctions.LossFunction;

/**
 * The DL4J peer: trains LeNet with a ParallelWrapper, for a number of steps or of epochs.
 *
 * <p>Each worker takes a minibatch of `--batch` a step, so a step is `--workers` minibatches. With `--epochs` the network is judged
 * on the test data after every epoch. Lines on standard output are JSON events in the shape of ours; the last is `finished`.
 */
public final class Lenet {
    private static final int TEST_BATCH = 500;

    private final Map<String, String> options = new HashMap<>();
    private final int batch;
    private final int workers;
    private final Random random;
    private final Idx images;
    private final Idx labels;
    private final MultiLayerNetwork network;
    private final ParallelWrapper wrapper;

    private Lenet(String[] arguments) throws IOException {
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            options.put(arguments[at], arguments[at + 1]);
        }
        batch = integer("--batch");
        workers = integer("--workers");
        random = new Random(integer("--seed"));
        images = Idx.read(Path.of(option("--images")));
        labels = Idx.read(Path.of(option("--labels")));
        network = new MultiLayerNetwork(configuration());
        network.init();
        wrapper = new ParallelWrapper.Builder<>(network)
                .workers(workers)
                .prefetchBuffer(integer("--prefetch"))
                .averagingFrequency(integer("--frequency"))
                .trainingMode(ParallelWrapper.TrainingMode.AVERAGING)
                .build();
    }

    private MultiLayerConfiguration configuration() {
        double rate = Double.parseDouble(option("--learning-rate"));
        double momentum = Double.parseDouble(option("--momentum"));
        return new NeuralNetConfiguration.Builder()
                .seed(integer("--seed"))
                .weightInit(WeightInit.XAVIER)
                .updater(new Nesterovs(rate, momentum))
                .list()
                .layer(new ConvolutionLayer.Builder(5, 5).nOut(20).activation(Activation.IDENTITY).build())
                .layer(pool())
                .layer(new ConvolutionLayer.Builder(5, 5).nOut(50).activation(Activation.IDENTITY).build())
                .layer(pool())
                .layer(new DenseLayer.Builder().nOut(500).activation(Activation.RELU).build())
                .layer(new OutputLayer.Builder(LossFunction.NEGATIVELOGLIKELIHOOD)
                        .nOut(10)
                        .activation(Activation.SOFTMAX)
                        .build())
                .setInputType(InputType.convolutional(28, 28, 1))
                .build();
    }

    private static SubsamplingLayer pool() {
        return new SubsamplingLayer.Builder(SubsamplingLayer.PoolingType.MAX).kernelSize(2, 2).stride(2, 2).build();
    }

    /** Steps from the first to the last; the clock runs after the warm ones. */
    private void trainSteps() {
        int steps = integer("--steps");
        int warm = Math.min(integer("--warm-steps"), steps);
        wrapper.fit(new Batches(images, labels, batch, warm * workers, random));
        long start = System.nanoTime();
        if (steps > warm) {
            wrapper.fit(new Batches(images, labels, batch, (steps - warm) * workers, random));
        }
        double milliseconds = (System.nanoTime() - start) / 1e6;
        finish((long) steps * workers * batch, milliseconds / Math.max(1, steps - warm));
    }

    private void trainEpochs() throws IOException {
        int epochs = integer("--epochs");
        Idx testImages = Idx.read(Path.of(option("--test-images")));
        Idx testLabels = Idx.read(Path.of(option("--test-labels")));
        long examples = 0;
        for (int epoch = 0; epoch < epochs; epoch++) {
            Batches all = Batches.epoch(images, labels, batch, random);
            wrapper.fit(all);
            examples += (long) (labels.values().length / batch) * batch;
            double accuracy = network.evaluate(Batches.epoch(testImages, testLabels, TEST_BATCH, null)).accuracy();
            print("{\"event\": \"evaluation\", \"epoch\": %d, \"accuracy\": %.4f}", epoch, accuracy);
        }
        finish(examples, null);
    }

    private void finish(long examples, Double ownClockMs) {
        double score = network.score();
        if (!Double.isFinite(score)) {
            throw new IllegalStateException("the loss is " + score + "; the figures would mean nothing");
        }
        print("{\"event\": \"finished\", \"examples\": %d, \"score\": %.6f, \"parameters\": %d, \"own_clock_ms\": %s}",
                examples, score, network.numParams(), ownClockMs == null ? "null" : String.format(Locale.ROOT, "%.4f", ownClockMs));
    }

    private static void print(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
        System.out.flush();
    }

    private int integer(String name) {
        return Integer.parseInt(option(name));
    }

    private String option(String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("expected the option " + name);
        }
        return value;
    }

    public static void main(String[] arguments) throws IOException {
        var run = new Lenet(arguments);
        if (run.options.containsKey("--epochs")) {
            run.trainEpochs();
        } else {
            run.trainSteps();
        }
        run.wrapper.shutdown();
        System.exit(0); // threads of the prefetcher may outlive the wrapper
    }
}
