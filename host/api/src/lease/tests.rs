//! Elections on a fake API server, by a clock under test: tokio's, paused.

use flyball_fakes::server::{Received, Reply, serve};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::*;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const CANDIDATES: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates";

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The Lease in the cluster; null before it is created.
#[derive(Clone, Default)]
struct Cluster {
    lease: Arc<Mutex<Value>>,
    /// The process's LeaseCandidate; null before it is created.
    candidate: Arc<Mutex<Value>>,
    is_unreachable: Arc<Mutex<bool>>,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Cluster {
    /// Responds as an API server does, with optimistic concurrency.
    fn respond(&self, request: &Received) -> Reply {
        if *self.is_unreachable.lock() {
            return Reply::Nothing;
        }
        let mut lease = if request.path.starts_with(LEASES) {
            self.lease.lock()
        } else if request.path.starts_with(CANDIDATES) {
            self.candidate.lock()
        } else {
            self.events.lock().push(request.body.clone());
            return Reply::Json(201, json!({}));
        };
        match &*request.method {
            "GET" if lease.is_null() => return Reply::refusal(404, "NotFound"),
            "GET" => {}
            "POST" if !lease.is_null() => return Reply::refusal(409, "AlreadyExists"),
            "PUT"
                if lease["metadata"]["resourceVersion"]
                    != request.body["metadata"]["resourceVersion"] =>
            {
                return Reply::refusal(409, "Conflict");
            }
            _ => {
                let version = version(&lease) + 1;
                *lease = request.body.clone();
                lease["metadata"]["resourceVersion"] = version.to_string().into();
                lease["metadata"]["uid"] = "of the lease".into();
            }
        }
        Reply::Json(200, lease.clone())
    }

    /// Writes the lease like another process that holds it.
    fn hold_by(&self, holder: &str) {
        let mut lease = self.lease.lock();
        let (version, transitions) = (version(&lease) + 1, &lease["spec"]["leaseTransitions"]);
        let transitions = transitions.as_u64().unwrap_or(6);
        *lease = json!({
            "metadata": {"name": "flyball", "namespace": "kube-system", "resourceVersion": version.to_string()},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
                "renewTime": version,
            },
        });
    }

    fn spec(&self, field: &str) -> Value {
        self.lease.lock()["spec"][field].clone()
    }

    fn version(&self) -> u64 {
        version(&self.lease.lock())
    }
}

fn version(lease: &Value) -> u64 {
    let version = lease["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

/// A process `a` that takes part in the election.
struct Process {
    fence: Arc<Fence>,
    leading: watch::Receiver<bool>,
    waits: watch::Receiver<Option<String>>,
    released: CancellationToken,
    elected: JoinHandle<Result<(), LeaseLost>>,
    start: Instant,
}

impl Process {
    /// Waits until it says that this process holds the lease, and returns what it says.
    async fn waits_behind(&mut self, holder: &str) -> String {
        let begins = format!("{holder} holds the lease");
        let is_told =
            |waits: &Option<String>| waits.as_ref().is_some_and(|told| told.starts_with(&begins));
        let told = self.waits.wait_for(is_told).await.expect("it runs").clone();
        told.unwrap_or_default()
    }

    fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, true, None)
    }

    fn start_with(
        cluster: &Cluster,
        is_given_up: bool,
        candidate: Option<CandidateVersions>,
    ) -> Self {
        Self::start_noting(cluster, is_given_up, candidate, None)
    }

    fn start_noting(
        cluster: &Cluster,
        is_given_up: bool,
        candidate: Option<CandidateVersions>,
        note: Option<Arc<LeaseNote>>,
    ) -> Self {
        let cluster = cluster.clone();
        let (connection, _) = serve(move |request| cluster.respond(request));
        let client = ApiClient::new(connection, None, "elector", Arc::new(Fence::open()));
        let election = LeaderElection {
            namespace: "kube-system".into(),
            name: "flyball".into(),
            lease_duration: s(15),
            renew_deadline: s(10),
            retry_period: s(2),
            is_given_up,
            candidate,
        };
        let (fence, start) = (Arc::new(Fence::closed()), Instant::now());
        let metrics = Metrics::new();
        let recorder = Recorder::start(client.clone(), "election".into(), "source".into());
        let elector = Elector::new(client, recorder, election, "a", fence.clone(), &metrics);
        let mut elector = elector.expect("new metrics").with_note(note);
        elector.clock = Arc::new(move || start.elapsed());
        let (leading, released) = (watch::Sender::new(false), CancellationToken::new());
        let waits = watch::Sender::new(None);
        Self {
            fence,
            leading: leading.subscribe(),
            waits: waits.subscribe(),
            elected: tokio::spawn(elector.run(leading, waits, released.clone())),
            released,
            start,
        }
    }

    async fn leads(&mut self) {
        let leads = self.leading.wait_for(|leads| *leads).await;
        leads.expect("the elector runs");
    }

    /// How long a write that starts now may take; none if it may not start.
    fn admitted(&self) -> Option<Duration> {
        let admitted = self.fence.admit(self.start.elapsed()).ok();
        admitted.map(|left| left.expect("there is an election"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_does_not_exist_is_created_and_renewed() {
    let cluster = Cluster::default();
    let mut process = Process::start(&cluster);
    process.leads().await;
    assert_eq!(cluster.spec("holderIdentity"), "a");
    assert_eq!(cluster.spec("leaseTransitions"), 0);
    assert_eq!(process.admitted(), Some(s(15)));
    // Sixty seconds are many times the lease's duration: it is renewed every two.
    sleep(s(60)).await;
    assert!(
        (28..=32).contains(&cluster.version()),
        "{}",
        cluster.version()
    );
    assert!(process.admitted() >= Some(s(13)));
}

#[tokio::test(start_paused = true)]
async fn a_standby_tells_another_program_from_another_flyball() {
    let cluster = Cluster::default();
    cluster.hold_by("stock");
    let mut process = Process::start(&cluster);
    let told = process.waits_behind("stock").await;
    assert!(
        told.starts_with("stock holds the lease kube-system/flyball and is another program")
            && told.contains("`--controllers=`"),
        "{told}"
    );

    let stock = "node-1_2c1f6b0e-5d64-4c0e-9a3e-0f6a7f0f3f11";
    let flyball = "node-1_2c1f6b0e5d644c0e9a3e0f6a7f0f3f11";
    for (holder, is_another) in [(flyball, false), (stock, true)] {
        cluster.hold_by(holder);
        let told = process.waits_behind(holder).await;
        assert_eq!(told.contains("another program"), is_another, "{told}");
    }
    cluster.lease.lock()["spec"]["holderIdentity"] = "".into();
    process.leads().await;
    assert_eq!(*process.waits.borrow(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_another_process_is_taken_once_it_was_not_renewed_for_its_duration() {
    let cluster = Cluster::default();
    cluster.hold_by("b");
    let mut process = Process::start(&cluster);
    sleep(s(10)).await;
    cluster.hold_by("b");
    // Renewed at 10 s and observed up to 4.4 s later: its time has not ended at 24 s.
    sleep(s(14)).await;
    assert!(!*process.leading.borrow() && process.admitted().is_none());
    process.leads().await;
    assert!((25..=34).contains(&process.start.elapsed().as_secs()));
    assert_eq!(cluster.spec("holderIdentity"), "a");
    assert_eq!(cluster.spec("leaseTransitions"), 7);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_is_lost_after_the_renew_deadline() {
    let cluster = Cluster::default();
    let mut process = Process::start(&cluster);
    process.leads().await;
    *cluster.is_unreachable.lock() = true;
    let lost_from = Instant::now();
    sleep(s(9)).await;
    assert!(process.admitted().is_some());
    sleep(s(2)).await;
    // No write starts after the deadline, whether the elector has noticed or not.
    assert_eq!(process.admitted(), None);
    let lost = (&mut process.elected).await.expect("it does not panic");
    let lost = lost.expect_err("the lease is lost").to_string();
    assert!(
        lost.contains("kube-system/flyball") && lost.contains("10 s"),
        "{lost}"
    );
    assert!(
        lost_from.elapsed() <= s(2 + 10 + 5),
        "{:?}",
        lost_from.elapsed()
    );
    assert_eq!(process.admitted(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_process_took_is_lost_at_the_next_renewal() {
    let cluster = Cluster::default();
    let mut process = Process::start(&cluster);
    process.leads().await;
    cluster.hold_by("b");
    let taken = Instant::now();
    let lost = (&mut process.elected).await.expect("it does not panic");
    let lost = lost.expect_err("the lease is lost").to_string();
    assert!(lost.contains("b holds it"), "{lost}");
    assert!(taken.elapsed() <= s(3), "{:?}", taken.elapsed());
    assert_eq!(process.admitted(), None);
    assert_eq!(cluster.spec("holderIdentity"), "b");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_lose_the_lease() {
    let cluster = Cluster::default();
    let mut process = Process::start(&cluster);
    process.leads().await;
    *cluster.is_unreachable.lock() = true;
    sleep(s(6)).await;
    *cluster.is_unreachable.lock() = false;
    sleep(s(60)).await;
    assert!(!process.elected.is_finished() && process.admitted().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_given_up_and_no_write_starts_any_more() {
    let cluster = Cluster::default();
    let mut process = Process::start(&cluster);
    process.leads().await;
    process.released.cancel();
    let ended = (&mut process.elected).await.expect("it does not panic");
    ended.expect("it was not lost");
    assert_eq!(cluster.spec("holderIdentity"), "");
    assert_eq!(process.admitted(), None);
}

#[tokio::test(start_paused = true)]
async fn a_note_is_in_force_when_it_is_acknowledged_and_the_next_holder_has_read_it_before_it_leads()
 {
    let noting = || {
        let read = Arc::new(Mutex::new(None::<String>));
        let seen = read.clone();
        let note = LeaseNote::new(move |text| *seen.lock() = text.map(str::to_owned));
        (Arc::new(note), read)
    };
    let cluster = Cluster::default();
    let (note, read) = noting();
    let mut first = Process::start_noting(&cluster, true, None, Some(note.clone()));
    first.leads().await;
    *cluster.is_unreachable.lock() = true;
    note.write(Some("step 1".into()), true);
    sleep(s(3)).await;
    assert_eq!(*read.lock(), None, "nobody has acknowledged it");
    *cluster.is_unreachable.lock() = false;
    sleep(s(3)).await;
    assert_eq!(read.lock().as_deref(), Some("step 1"));
    note.write(Some("step 2".into()), true);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(read.lock().as_deref(), Some("step 2"), "it does not wait");

    // The process dies: another one waits for the end of its lease.
    first.elected.abort();
    cluster.lease.lock()["spec"]["holderIdentity"] = "b".into();
    let (note, read) = noting();
    let mut second = Process::start_noting(&cluster, true, None, Some(note));
    second.leads().await;
    assert_eq!(read.lock().as_deref(), Some("step 2"));
    sleep(s(10)).await;
    assert_eq!(read.lock().as_deref(), Some("step 2"), "it stays");
}

fn coordinated(cluster: &Cluster) -> Process {
    Process::start_with(
        cluster,
        true,
        Some(CandidateVersions {
            binary: "1.36.0".into(),
            emulation: "1.35.0".into(),
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_candidate_leads_only_when_the_api_server_has_chosen_it() {
    let cluster = Cluster::default();
    let mut process = coordinated(&cluster);
    sleep(s(30)).await;
    assert!(cluster.lease.lock().is_null() && process.admitted().is_none());
    let told = process.waits.borrow().clone().unwrap_or_default();
    assert!(told.starts_with("the API server has not chosen"), "{told}");
    cluster.hold_by("b");
    // It does not take the lease of another, whether or not that is renewed.
    sleep(s(30)).await;
    assert_eq!(cluster.spec("holderIdentity"), "b");
    cluster.hold_by("a");
    process.leads().await;
    sleep(s(60)).await;
    assert!(process.admitted() >= Some(s(13)));
    assert_eq!(cluster.spec("leaseTransitions"), 6);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_announced_with_its_versions_and_responds_to_pings() {
    let cluster = Cluster::default();
    let _process = coordinated(&cluster);
    sleep(s(1)).await;
    let announced = cluster.candidate.lock().clone();
    assert_eq!(announced["metadata"]["name"], "a");
    let spec = &announced["spec"];
    assert_eq!(
        (
            &spec["leaseName"],
            &spec["binaryVersion"],
            &spec["emulationVersion"]
        ),
        (&json!("flyball"), &json!("1.36.0"), &json!("1.35.0"))
    );
    sleep(s(60)).await;
    assert_eq!(version(&cluster.candidate.lock()), 1);
    cluster.candidate.lock()["spec"]["pingTime"] = "2100-01-01T00:00:00.000000Z".into();
    sleep(s(3)).await;
    assert!(version(&cluster.candidate.lock()) > 1);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_renewed_every_five_minutes() {
    let cluster = Cluster::default();
    let _process = coordinated(&cluster);
    sleep(s(16 * 60)).await;
    assert_eq!(version(&cluster.candidate.lock()), 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_ends_if_the_api_server_prefers_another() {
    let cluster = Cluster::default();
    let mut process = coordinated(&cluster);
    cluster.hold_by("a");
    process.leads().await;
    {
        let mut lease = cluster.lease.lock();
        let next = version(&lease) + 1;
        lease["spec"]["preferredHolder"] = "b".into();
        lease["metadata"]["resourceVersion"] = next.to_string().into();
    }
    let before = cluster.version();
    let lost = (&mut process.elected).await.expect("it does not panic");
    let lost = lost.expect_err("the lease is lost").to_string();
    assert!(lost.contains("has chosen b to hold it next"), "{lost}");
    assert_eq!((cluster.version(), process.admitted()), (before, None));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_given_up_ends_after_its_duration() {
    let cluster = Cluster::default();
    let mut process = Process::start_with(&cluster, false, None);
    process.leads().await;
    process.released.cancel();
    let ended = (&mut process.elected).await.expect("it does not panic");
    ended.expect("it was not lost");
    assert_eq!(cluster.spec("holderIdentity"), "a");
    assert_eq!(process.admitted(), None);
}

#[tokio::test(start_paused = true)]
async fn an_event_refers_to_the_lease_as_it_was_last_read() {
    let cluster = Cluster::default();
    let mut process = Process::start(&cluster);
    process.leads().await;
    process.released.cancel();
    let ended = (&mut process.elected).await.expect("it does not panic");
    ended.expect("it was not lost");
    let events = cluster.events.lock();
    let messages: Vec<&Value> = events.iter().map(|event| &event["message"]).collect();
    assert_eq!(messages, ["a became leader", "a stopped leading"]);
    let about = &events[0]["involvedObject"];
    assert_eq!(
        (&about["uid"], &about["resourceVersion"]),
        (&json!("of the lease"), &json!("1"))
    );
    assert_eq!(events[0]["source"]["component"], "source");
}
