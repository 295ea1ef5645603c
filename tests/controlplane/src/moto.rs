//! moto, which serves the APIs of AWS from memory, for tests of Kubernetes' provider for AWS; and the stock
//! aws-cloud-controller-manager.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flyball_devcluster::process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::go_binary::GoBinary;

/// The time limit for the start of moto.
const PATIENCE: Duration = Duration::from_secs(120);
/// The ID of the cluster, and the key of the tag that has it.
const CLUSTER: &str = "test";
const TAG: &str = "KubernetesCluster";
/// Where the instances are.
const ZONE: &str = "us-east-1a";

static STOCK: GoBinary = GoBinary {
    folder: "aws",
    below: "",
    name: "aws-cloud-controller-manager",
    of: "aws-cloud-controller-manager",
    package: "k8s.io/cloud-provider-aws/cmd/aws-cloud-controller-manager",
    tags: "",
    folders: &[],
    link: |_| Ok("-s -w".to_owned()),
    needs_newer_go: false,
};

/// Returns the stock aws-cloud-controller-manager. It is built if it is missing or its version has changed, which needs Go
/// and takes minutes.
///
/// # Errors
/// The build fails.
pub async fn aws_cloud_controller_manager() -> Result<PathBuf> {
    STOCK.built().await
}

/// A running moto. It ends when it is dropped.
pub struct Moto {
    process: Child,
    address: SocketAddr,
}

/// A VPC on a [`Moto`], whose subnet has instances of the cluster.
pub struct Vpc {
    id: String,
    subnet: String,
    /// The IDs of the instances.
    pub instances: Vec<String>,
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Moto {
    /// Starts moto; none if it is not installed. The variable `MOTO_SERVER` may name the program.
    ///
    /// # Errors
    /// It does not listen in time.
    pub async fn start() -> Result<Option<Self>> {
        let program = std::env::var_os("MOTO_SERVER").unwrap_or_else(|| "moto_server".into());
        // Another program may take the port in between; then the start fails in time.
        let free = TcpListener::bind("127.0.0.1:0").await?;
        let address = free.local_addr()?;
        drop(free);
        let mut command = Command::new(program);
        command
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(process) = process::spawn(command) else {
            return Ok(None);
        };
        let moto = Self { process, address };
        let begun = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            ensure!(
                begun.elapsed() < PATIENCE,
                "moto does not listen on {address}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(Some(moto))
    }

    /// The address of all services, such as `http://127.0.0.1:5000`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request to EC2, given its parameters, and returns the response.
    ///
    /// # Errors
    /// The request fails.
    pub async fn ec2(&self, parameters: &str) -> Result<String> {
        let body = format!("{parameters}&Version=2016-11-15");
        // Moto finds the service in the scope of the credential, and checks nothing.
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nAuthorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/ec2/aws4_request, \
             SignedHeaders=host, Signature=b\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        ensure!(
            response.starts_with("HTTP/1.1 200"),
            "moto refuses {parameters}: {response}"
        );
        Ok(response)
    }
}

impl Vpc {
    /// Creates instances in the first subnet, which is made public.
    ///
    /// # Errors
    /// A request fails.
    pub async fn create(moto: &Moto, instances: usize) -> Result<Self> {
        let id = first(&moto.ec2("Action=DescribeVpcs").await?, "vpcId")?;
        let in_zone = format!(
            "Action=DescribeSubnets&Filter.1.Name=availability-zone&Filter.1.Value.1={ZONE}"
        );
        let subnet = first(&moto.ec2(&in_zone).await?, "subnetId")?;
        let table = first(
            &moto.ec2("Action=DescribeRouteTables").await?,
            "routeTableId",
        )?;
        let gateway = moto.ec2("Action=CreateInternetGateway").await?;
        let gateway = first(&gateway, "internetGatewayId")?;
        for parameters in [
            format!("Action=AttachInternetGateway&InternetGatewayId={gateway}&VpcId={id}"),
            format!(
                "Action=CreateRoute&RouteTableId={table}&DestinationCidrBlock=0.0.0.0/0&GatewayId={gateway}"
            ),
        ] {
            moto.ec2(&parameters).await?;
        }
        let parameters = format!(
            "Action=RunInstances&ImageId=ami-12c6146b&MinCount={instances}&MaxCount={instances}&InstanceType=t3.small&\
             SubnetId={subnet}&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key={TAG}&\
             TagSpecification.1.Tag.1.Value={CLUSTER}"
        );
        let run = moto.ec2(&parameters).await?;
        let instances = texts(&run, "instanceId").map(str::to_owned).collect();
        Ok(Self {
            id,
            subnet,
            instances,
        })
    }

    /// The file of `--cloud-config`.
    pub fn config(&self, moto: &Moto) -> String {
        let global = format!(
            "[Global]\nZone={ZONE}\nRegion=us-east-1\nVPC={}\nSubnetID={}\nKubernetesClusterTag={CLUSTER}\n",
            self.id, self.subnet
        );
        let services = ["EC2", "Elastic Load Balancing", "Elastic Load Balancing v2"];
        let overrides = services.into_iter().enumerate().map(|(number, service)| {
            format!(
                "[ServiceOverride \"{number}\"]\nService=\"{service}\"\nRegion=us-east-1\nURL={}\nSigningRegion=us-east-1\n",
                moto.url()
            )
        });
        global + &overrides.collect::<String>()
    }

    /// The provider ID of the node of an instance.
    pub fn provider_id(&self, number: usize) -> String {
        format!("aws:///{ZONE}/{}", self.instances[number])
    }
}

/// The texts of all elements with this name.
fn texts<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts: Vec<&str> = xml.split(&*begin).skip(1).collect();
    let first = move |part: &'a str| part.split(&*end).next();
    parts.into_iter().filter_map(first)
}

fn first(xml: &str, name: &str) -> Result<String> {
    let found = texts(xml, name).next();
    let found = found.with_context(|| format!("moto's response has no {name}: {xml}"))?;
    Ok(found.to_owned())
}
