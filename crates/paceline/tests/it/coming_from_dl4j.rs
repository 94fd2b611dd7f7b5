//! The guide for those who come from DL4J: what its rows say to write is written, built and trained.
//!
//! Snippets of the second column of its tables are laid over a small job: `network.seed = 123` as a setting,
//! `{ dense = … }` as a layer. Its Rust stands here word for word. Its commands are run by the tests of the binary.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use paceline::data::{Example, ExampleShape, ExampleTarget, Stream, TargetShape};
use paceline::nn::config::LayerConfig;
use paceline::nn::evaluation::{MultiClassRoc, Regression, Roc, Thresholds};
use paceline::nn::{Layer, LossFunction, Reference};
use paceline::prelude::*;
use paceline::train::{AveragingOptions, Exchange, IfFound, Mode, Outcome, Solo, Take, Worker};

fn guide() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("in the workspace");
    std::fs::read_to_string(root.join("docs/coming-from-dl4j.md")).expect("the guide")
}

/// The cells of every row of every table, and the line it stands on.
fn rows(guide: &str) -> Vec<(usize, Vec<&str>)> {
    let lines: Vec<&str> = guide.lines().collect();
    let is_row =
        |n: usize| lines[n].starts_with("| ") && !lines.get(n + 1).is_some_and(|next| next.starts_with("|---"));
    (0..lines.len())
        .filter(|n| is_row(*n))
        .map(|n| (n + 1, lines[n].trim_matches('|').split('|').map(str::trim).collect()))
        .collect()
}

/// What stands between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The blocks of code in a language.
fn blocks<'a>(guide: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    guide.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)).collect()
}

/// What the snippets are laid over: the first layer and the last are those that a snippet may replace.
const BASE: &str = r#"
[data]
train = "digits:train"
batch = 32

[network]
seed   = 1
input  = { image = [8, 8, 1] }
layers = [
  { activation = { function = "identity" } },
  { dense = { units = 16 } },
  { output = { units = 10, activation = "softmax", loss = "cross_entropy" } },
]

[train]
steps = 2
"#;

const FLOWERS: &str = "sepal_length,sepal_width,petal_length,petal_width,species
5.1,3.5,1.4,0.2,setosa
7.0,3.2,4.7,1.4,versicolor
6.3,3.3,6.0,2.5,virginica
4.9,3.0,1.4,0.2,setosa
6.4,3.2,4.5,1.5,versicolor
5.8,2.7,5.1,1.9,virginica
";

/// Images of noise and their labels, in IDX files.
fn write_images(folder: &Path, side: u32) {
    let examples = 64u32;
    let mut images = [0x0803, examples, side, side].map(u32::to_be_bytes).concat();
    let noise = (0..examples * side * side).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
    images.extend(noise);
    let mut labels = [0x0801, examples].map(u32::to_be_bytes).concat();
    labels.extend((0..examples).map(|n| (n % 10) as u8));
    std::fs::write(folder.join("images.idx"), images).expect("a temporary file");
    std::fs::write(folder.join("labels.idx"), labels).expect("a temporary file");
}

/// One thing to try: what is laid over the base.
fn trials(row: &[&str]) -> Vec<Vec<String>> {
    let of_second = || spans(row.get(1).copied().unwrap_or_default());
    let is_setting = |s: &&str| ["data.", "network.", "train."].iter().any(|t| s.starts_with(t)) && s.contains(" = ");
    let settings: Vec<String> = of_second().filter(is_setting).map(str::to_owned).collect();
    let mut trials: Vec<Vec<String>> = of_second()
        .filter(|snippet| snippet.starts_with("{ "))
        .map(|layer| {
            let kind = layer[2..].split(' ').next().unwrap_or_default();
            assert!(LayerConfig::KINDS.contains(&kind), "`{layer}` is no layer");
            let place = if matches!(kind, "output" | "loss") { 2 } else { 0 };
            settings.iter().cloned().chain([format!("network.layers.{place}={layer}")]).collect()
        })
        .collect();
    if trials.is_empty() && !settings.is_empty() {
        trials.push(settings);
    }
    trials
}

/// Builds and trains a job with these settings.
fn attempt(folder: &Path, name: &str, settings: &[String]) -> Result<(), Box<dyn Error>> {
    let here = |name: &str| folder.join(name).display().to_string();
    let mut settings: Vec<String> = settings
        .iter()
        .map(|s| s.replace("csv:flowers.csv", &format!("csv:{}", here("flowers.csv"))))
        .map(|s| s.replace("idx:images.idx,labels.idx", &format!("idx:{},{}", here("images.idx"), here("labels.idx"))))
        .map(|s| s.replace("dump = \"messages\"", &format!("dump = \"{}\"", here("messages"))))
        .collect();
    if !settings.iter().any(|s| s.starts_with("data.train") || s.starts_with("data.test")) {
        settings.push("data.test=digits:test".into());
    }
    let job = Job::read(&folder.join("base.toml"), &settings)?;
    if ["mnist:", "given:"].iter().any(|source| job.data.train.starts_with(source)) {
        // Nothing is fetched here, and nobody gives anything; that the network can be made is what is left to see.
        Network::new(job.network)?;
        return Ok(());
    }
    let trainer = job.trainer(
        Some(folder.join(name)),
        IfFound::Refuse,
        &OpenOptions { offline: true, ..OpenOptions::default() },
    )?;
    trainer.run(&mut |_| {})?;
    Ok(())
}

#[test]
fn every_setting_and_every_layer_of_the_guide_trains() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("base.toml"), BASE).expect("a temporary file");
    std::fs::write(folder.path().join("flowers.csv"), FLOWERS).expect("a temporary file");
    write_images(folder.path(), 8);
    let (guide, mut tried, mut failures) = (guide(), 0, String::new());
    for (line, row) in rows(&guide) {
        for settings in trials(&row) {
            tried += 1;
            if let Err(error) = attempt(folder.path(), &tried.to_string(), &settings) {
                let _ = writeln!(failures, "line {line}: {}: {error}", settings.join(", "));
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(folder.path().join("messages/messages.bin").exists(), "no messages were written down");
    assert!(tried >= 205, "only {tried} snippets were found");
}

#[test]
fn every_row_says_what_to_write_or_why_not() {
    let guide = guide();
    let (mut ours, mut others) = (0, 0);
    for (line, row) in rows(&guide) {
        assert!(row.len() == 3 || row.len() == 2, "line {line} has {} cells", row.len());
        assert!(row.iter().take(2).all(|cell| !cell.is_empty()), "line {line} has an empty cell");
        let [name, answer, remark] = row[..] else { continue };
        assert!(!answer.starts_with("not needed") || !remark.is_empty(), "line {line}: why is {name} not needed?");
        *if answer.starts_with("planned") || answer.starts_with("not needed") { &mut others } else { &mut ours } += 1;
    }
    assert!(ours >= 290 && others >= 50, "{ours} and {others} rows");
}

/// Every name that somebody who reads the guides of the original could look for here.
const NAMES: &str = "
ActorNetworkRunner Conf setup(conf) train() finetune() shutdown() MasterActor WorkerActor BatchActor ModelSavingActor nn-model.bin
Hazelcast 2510 BaseHazelCastStateTracker HazelcastInstance IMap workerEnabled getMap /statetracker/ ZooKeeper 2181
ZookeeperConfigurationRetriever retrieve() getMasterUrl StateTracker ActorNetworkRunnerApp MnistMultiThreadedExample DistributedDBN
`-a` `-i` `-o` `-fte` `-pte` `-ftl` `-ptl` `-r` `-k` `-c` `-hl` `-sp` `-e` `-adg` `-data` `-datasetpath` `-t` `-h` `-ad` `-stp` `-cp`
-XX:+UseTLAB -Dhazelcast.interface accessKey accessSecret ClusterSetup `-w` `-ami` `-s` `-sg` `-kp` `-kpath` `-wscript` `-mscript` `-region`
EC2 S3 HDFS Akka Blas JBlas JCuda JCublas ND4J HogWild word2vec GloVe setFinetuneEpochs setPretrainLearningRate setLayerSizes setMomentum
setMultiLayerClazz setNeuralNetworkClazz setnIn setnOut setFunction HardTanh setFinetuneLearningRate setUseRegularization corruption
RBM CD-k DBN CDBN CRBM LINE_GRADIENT_DESCENT CONJUGATE_GRADIENT LBFGS STOCHASTIC_GRADIENT_DESCENT OptimizationAlgorithm
`Sgd` `Adam` `AdaMax` `AMSGrad` `AdaBelief` `AdaDelta` `AdaGrad` `Nadam` `Nesterovs` `RmsProp` `NoOp` CycleSchedule ExponentialSchedule
FixedSchedule InverseSchedule MapSchedule PolySchedule RampSchedule SigmoidSchedule StepSchedule
`CUBE` `ELU` `HARDSIGMOID` `HARDTANH` `IDENTITY` `LEAKYRELU` `RATIONALTANH` `RELU` `RELU6` `RRELU` `SIGMOID` `SOFTMAX` `SOFTPLUS` `SOFTSIGN`
`TANH` `RECTIFIEDTANH` `SELU` `SWISH` `THRESHOLDEDRELU` `GELU` `MISH` `MSE` `L1` `L2` `XENT` `MCXENT` `SPARSE_MCXENT` `SQUARED_LOSS`
`RECONSTRUCTION_CROSSENTROPY` `NEGATIVELOGLIKELIHOOD` `COSINE_PROXIMITY` `HINGE` `SQUARED_HINGE` `KL_DIVERGENCE` mae mape msle `POISSON`
`WASSERSTEIN` LossFMeasure LossMixtureDensity LossMultiLabel DISTRIBUTION `ZERO` `ONES` SIGMOID_UNIFORM `NORMAL` LECUN_NORMAL LECUN_UNIFORM
`UNIFORM` `XAVIER` XAVIER_UNIFORM XAVIER_FAN_IN RELU_UNIFORM VAR_SCALING_NORMAL_FAN_IN VAR_SCALING_NORMAL_FAN_OUT VAR_SCALING_NORMAL_FAN_AVG
VAR_SCALING_UNIFORM_FAN_IN VAR_SCALING_UNIFORM_FAN_OUT VAR_SCALING_UNIFORM_FAN_AVG DenseLayer OutputLayer LossLayer ActivationLayer
DropoutLayer EmbeddingLayer EmbeddingSequenceLayer ElementWiseMultiplicationLayer PReLULayer AutoEncoder VariationalAutoencoder
BatchNormalization LocalResponseNormalization Convolution1DLayer ConvolutionLayer Convolution3D Deconvolution2D DepthwiseConvolution2D
SeparableConvolution2D LocallyConnected1D LocallyConnected2D SubsamplingLayer Subsampling1DLayer Subsampling3DLayer Upsampling1D
Upsampling2D Upsampling3D ZeroPaddingLayer Cropping2D SpaceToDepthLayer SpaceToBatchLayer GlobalPoolingLayer `LSTM` GravesLSTM
GravesBidirectionalLSTM SimpleRnn `Bidirectional` LastTimeStep TimeDistributed RnnOutputLayer RnnLossLayer CnnLossLayer Yolo2OutputLayer
SelfAttentionLayer LearnedSelfAttentionLayer RecurrentAttentionLayer CapsuleLayer FrozenLayer RepeatVector MaskLayer ComputationGraph
MergeVertex ElementWiseVertex StackVertex UnstackVertex SubsetVertex L2Vertex L2NormalizeVertex ScaleVertex ShiftVertex ReshapeVertex
PreprocessorVertex AttentionVertex AlphaDropout GaussianDropout SpatialDropout DropConnect MaxNormConstraint MinMaxNormConstraint
NonNegativeConstraint UnitNormConstraint RenormalizeL2PerLayer RenormalizeL2PerParamType ClipElementWiseAbsoluteValue ClipL2PerLayer
ClipL2PerParamType weightDecay ParallelWrapper AVERAGING SHARED_GRADIENTS CUSTOM workers(2) prefetchBuffer averagingFrequency averageUpdaters
reportScoreAfterAveraging thresholdAlgorithm residualPostProcessor gradientsAccumulator trainerFactory modelParamsSupplier
updaterParamsSupplier stopFit `close` ParallelWrapperMain ParallelInference BATCHED SEQUENTIAL INPLACE batchLimit queueLimit updateModel
EarlyStoppingParallelTrainer ParameterAveragingTrainingMaster numWorkers rddDataSetNumExamples batchSizePerWorker aggregationDepth
workerPrefetchNumBatches saveUpdater repartitionData `Always` `Never` NumPartitionsWorkersDiffers repartitionStrategy `Balanced`
`SparkDefault` ApproximateBalanced storageLevel rddTrainingApproach `Export` `Direct` exportDirectory rngSeed trainingHooks
collectTrainingStats YAML SharedTrainingMaster VoidConfiguration updatesThreshold workersPerNode repartitioner encodingDebugMode
debugLongerIterations unicastPort portSupplier 49876 networkMask controllerAddress meshBuildMode MeshBuildMode.MESH PLAIN retransmitTimeout
maxChunkSize chunksBufferSize AdaptiveThresholdAlgorithm TargetSparsityThresholdAlgorithm FixedThresholdAlgorithm Aeron UDP
SparkDl4jMultiLayer SparkComputationGraph TrainingMaster JavaSparkContext JavaRDD RDD<DataSet> RDD<MultiDataSet> dl4j-spark
dl4j-spark-parameterserver scala.binary.version uber-JAR nd4j.backend nd4j-native-platform nd4j-cuda-8.0-platform MnistDataSetIterator
`Evaluation` MultiLayerConfiguration NeuralNetConfiguration.Builder InputType.convolutionalFlat MultiLayerNetwork ScoreIterationListener
DataBuffer DataTypeUtil INDArray `DataSet` DataSetIterator LoggerFactory kernelSize `stride` PoolingType.MAX optimizationAlgo backprop
pretrain z.load evaluateRegression evaluateROC evaluateROCMultiClass doEvaluation calculateScore scoreExamples feedForwardWithKey
`predict` SQLite dashboard timeline ModelSerializer AsyncDataSetIterator CSVRecordReader NormalizerStandardize NormalizerMinMaxScaler
ImagePreProcessingScaler CheckpointListener EarlyStoppingConfiguration numbatchessofar `minibatch` updates/num printmodel spot
MultiGpuLenetMnistExample re-handshake iterative
";

#[test]
fn every_name_of_the_original_has_its_place() {
    let guide = guide();
    let missing: Vec<&str> = NAMES.split_whitespace().filter(|name| !guide.contains(name)).collect();
    assert!(missing.is_empty(), "the guide does not name {missing:?}");
}

/// Words only: how lines are broken and indented does not matter.
fn words(code: &str) -> String {
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_rust_of_the_guide_stands_here_and_so_compiles() {
    let (guide, here) = (guide(), include_str!("coming_from_dl4j.rs").replace("::<Engine, Solo>", ""));
    let blocks = blocks(&guide, "rust");
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        assert!(words(&here).contains(&words(block)), "this is not part of this test:\n{block}");
    }
    // Functions that tables name, `Type::function`, are called or named here.
    let is_name = |s: &&str| s.starts_with(char::is_uppercase) && s.contains("::");
    let functions: Vec<&str> = spans(&guide).filter(is_name).collect();
    assert!(functions.len() >= 12, "{functions:?}");
    for function in functions {
        let called = format!(".{}(", function.rsplit("::").next().unwrap_or(function));
        assert!(here.contains(function) || here.contains(&called), "`{function}` is not used in this test");
    }
}

#[test]
fn types_that_the_guide_names_exist() {
    fn is_layer<T: Layer>() {}
    fn is_loss<T: LossFunction>() {}
    fn is_exchange<T: Exchange>() {}
    // A trait without an implementation of ours here is named by what demands it.
    let _ = (is_layer::<NoLayer>, is_loss::<NoLoss>, is_exchange::<Solo>);
    let _ = (Worker::<Engine, Solo>::new, NetworkConfig::from_json, Arrays::with_weights, ModelFile::load);
    let guide = guide();
    for name in [
        std::any::type_name::<MultiClassRoc>(),
        std::any::type_name::<Regression>(),
        std::any::type_name::<Roc>(),
        std::any::type_name::<Thresholds>(),
        std::any::type_name::<Reference>(),
        std::any::type_name::<Loader>(),
        std::any::type_name::<Event>(),
        std::any::type_name::<Outcome>(),
    ] {
        let name = name.rsplit("::").next().unwrap_or(name);
        assert!(guide.contains(&format!("`{name}`")), "the guide does not name `{name}`");
    }
}

struct NoLayer;

impl Layer for NoLayer {
    fn name(&self) -> &str {
        "none"
    }
    fn output(&self, input: paceline::nn::Shape) -> Result<paceline::nn::Shape, String> {
        Ok(input)
    }
    fn forward<R: paceline::nn::Real>(&self, _: usize, _: &[R], x: &[R], y: &mut [R]) {
        y.copy_from_slice(x);
    }
    fn backward<R: paceline::nn::Real>(&self, pass: paceline::nn::Backward<'_, R>) {
        pass.dx.copy_from_slice(&pass.dy[..pass.dx.len()]);
    }
}

struct NoLoss;

impl LossFunction for NoLoss {
    fn name(&self) -> &str {
        "none"
    }
    fn row<R: paceline::nn::Real>(&self, _: &[R], _: &[R], slope: &mut [R]) -> R {
        slope.fill(R::ZERO);
        R::ZERO
    }
}

#[expect(clippy::print_stdout, reason = "the guide shows what most would write")]
fn train_lenet(train: Arc<dyn Source>, test: Arc<dyn Source>, output: &Path) -> Result<Outcome, Box<dyn Error>> {
    let network = NetworkConfig::image(28, 28, 1)
        .seed(123)
        .weight_init(WeightInit::Xavier)
        .updater(Updater::nesterovs(0.03, 0.9))
        .layer(Conv2d::new(20, [5, 5]))
        .layer(Subsampling::max([2, 2]).stride([2, 2]))
        .layer(Conv2d::new(50, [5, 5]))
        .layer(Subsampling::max([2, 2]).stride([2, 2]))
        .layer(Dense::new(500).activation(Activation::Relu))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let mode = Mode::Averaging(AveragingOptions { frequency: 3, report_score: true, ..AveragingOptions::default() });
    let output = Some(output.to_owned());
    let options = TrainOptions { workers: 2, mode, prefetch: 24, seed: 12345, output, ..TrainOptions::default() };
    let trainer = Trainer::new(Network::new(network)?, train, options)?.test(test)?;
    let outcome = trainer.run(&mut |event| {
        if let Event::Step { iteration, loss, .. } = event {
            println!("step {iteration}: score {loss:.4}");
        }
    })?;
    Ok(outcome)
}

fn flowers(features: Vec<f32>, classes: Vec<u32>) -> Result<Arc<dyn Source>, paceline::data::Error> {
    let names = vec!["setosa".to_owned(), "virginica".to_owned()];
    let shape = ExampleShape { features: vec![4], targets: TargetShape::Classes { names } };
    Ok(Arc::new(Arrays::new(features, shape, Targets::Classes(classes))?))
}

fn train_for_a_while(trainer: &Trainer) -> Result<Outcome, paceline::train::Error> {
    let stop = trainer.stop(); // may go to another thread
    trainer.run(&mut |event| {
        if let Event::Epoch { epoch, .. } = event
            && *epoch >= 3
        {
            stop.ask();
        }
    })
}

fn serve(model: ModelFile, better: ModelFile, pixels: &[f32]) -> Result<[Vec<f32>; 2], Box<dyn Error>> {
    let options = BatchedOptions { batch_limit: 32, queue_limit: 64, wait: Duration::from_millis(1) };
    let inference = ParallelInference::builder(model).workers(2).batched(options).build()?;
    let before = inference.output(pixels)?;
    inference.swap(better)?;
    Ok([before, inference.output(pixels)?])
}

fn judge_and_ask(path: &Path, source: Arc<dyn Source>) -> Result<(f64, Vec<f32>), paceline::train::Error> {
    let mut model = SavedModel::load(path)?;
    let scores = model.evaluate(source.clone(), 256)?.expect("the source has targets");
    let mut outputs = Vec::new();
    model.predict(source, 256, |_batch, rows| {
        outputs.extend_from_slice(rows);
        Ok::<_, paceline::train::Error>(())
    })?;
    Ok((scores.score(), outputs))
}

#[test]
fn the_job_and_the_rust_of_the_first_page_are_one_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_images(folder.path(), 28);
    let here = |name: &str| folder.path().join(name).display().to_string();
    let images = format!("idx:{},{}", here("images.idx"), here("labels.idx"));
    let job: PathBuf = folder.path().join("lenet.toml");
    let guide = guide();
    let text = blocks(&guide, "toml")[0].replace("mnist:train", &images).replace("mnist:test", &images);
    std::fs::write(&job, text).expect("a temporary file");

    let options = OpenOptions::default();
    let trainer =
        Job::read(&job, &[]).and_then(|job| job.trainer(Some(folder.path().join("job")), IfFound::Refuse, &options));
    let by_job = trainer.and_then(|trainer| trainer.run(&mut |_| {})).unwrap_or_else(|e| panic!("{e}"));
    let source = || open(&images, &options).expect("images");
    let by_rust = train_lenet(source(), source(), &folder.path().join("rust")).expect("a run");

    assert_eq!(by_job.model.network.config(), by_rust.model.network.config());
    assert_eq!(by_job.model.network.config().to_json(), by_rust.model.network.config().to_json());
    assert!(*by_job.model.state.parameters == *by_rust.model.state.parameters, "the same settings, other parameters");

    let (score, outputs) = judge_and_ask(&folder.path().join("rust/model.safetensors"), source()).expect("a model");
    assert_eq!(outputs.len(), 64 * 10);
    assert_eq!(score, by_rust.scores.expect("there is test data").score());
    by_rust.model.save(&folder.path().join("again.safetensors")).expect("a file");

    let (mut worse, pixels) = (by_rust.model.clone(), [7.0; 28 * 28]);
    worse.state.parameters.fill(0.0);
    let [before, after] = serve(worse, by_rust.model, &pixels).expect("answers");
    assert_eq!(before, [0.1; 10], "all parameters are 0");
    assert_ne!(after, before);

    let job = Job::read(&job, &[]).expect("a job");
    let trainer = job.trainer(None, IfFound::Refuse, &options).expect("a trainer");
    let tuned = trainer.begin_with(&by_job.model, Take::Learned).expect("the same layers");
    assert!(*tuned.first_state().parameters == *by_job.model.state.parameters);
}

#[test]
fn arrays_and_streams_are_trained_on_and_a_run_stops_when_asked() {
    let network = || {
        let config =
            NetworkConfig::feed_forward(4).layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
        Network::new(config).expect("a network")
    };
    let options = TrainOptions { batch: 1, epochs: 10, ..TrainOptions::default() };
    let rows = flowers(vec![0.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 0.0], vec![0, 1]).expect("two flowers");
    let shape = rows.shape().clone();
    let example = |class: u32| Ok(Example { features: vec![class as f32; 4], target: ExampleTarget::Class(class) });
    let stream = Arc::new(Stream::new(shape, 2, move || (0..2).map(example)));
    for source in [rows, stream] {
        let trainer = Trainer::new(network(), source, options.clone()).expect("they fit");
        let outcome = train_for_a_while(&trainer).expect("a run");
        assert!(outcome.stopped);
        assert!((6..20).contains(&outcome.model.progress.iteration), "{:?}", outcome.model.progress);
    }
}

#[test]
fn a_sequence_is_taken_one_step_after_the_other() {
    let json = r#"{"input": {"sequence": [4, 2]}, "layers": [{"lstm": {"units": 3}}, {"output": {"units": 2}}]}"#;
    let network = Network::new(NetworkConfig::from_json(json).expect("readable")).expect("a network");
    let mut stepwise =
        paceline::nn::Stepwise::new(&network, &network.initial_state()).expect("it goes from step to step");
    let tell = |stepwise: &mut paceline::nn::Stepwise| {
        let mut outputs = Vec::new();
        paceline::nn::Stepwise::step(stepwise, &[1.0, -1.0], 1, &mut outputs).expect("two numbers");
        outputs
    };
    let (first, second) = (tell(&mut stepwise), tell(&mut stepwise));
    paceline::nn::Stepwise::forget(&mut stepwise);
    assert_eq!(tell(&mut stepwise), first);
    assert_ne!(first, second);
}
