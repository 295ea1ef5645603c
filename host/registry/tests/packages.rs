//! Packages in a real registry: pushed, pulled, tampered with, signed and unsigned.

use std::collections::BTreeMap;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flyball_controlplane::Registry;
use flyball_registry::{
    Options, Package, PackageReference, PublicKey, Pulled, RegistryError, SIGNATURE_ANNOTATION,
    SIGNATURE_MEDIA_TYPE, pull, push, signature_tag,
};
use oci_client::client::{ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::OciImageManifest;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

/// A registry with one package in it.
struct TestRegistry {
    registry: Registry,
    tagged: PackageReference,
    pinned: PackageReference,
}

const WASM: &[u8] = b"\0asm\x0d\0\x01\0 a component, as far as a registry can tell";

fn package(wasm: &'static [u8]) -> Package {
    let annotations = BTreeMap::from([("org.opencontainers.image.version".into(), "1.0.0".into())]);
    Package {
        wasm: Bytes::from_static(wasm),
        exports: vec!["a".into()],
        imports: Vec::new(),
        annotations,
    }
}

impl TestRegistry {
    async fn start() -> Result<Self> {
        let registry = Registry::start().await?;
        let tagged: PackageReference =
            format!("oci://{}/team/greeter:1.0", registry.address()).parse()?;
        let pinned = push(&tagged, package(WASM), &Options::default()).await?;
        Ok(Self {
            registry,
            tagged,
            pinned,
        })
    }

    /// The digest of the package's manifest.
    fn digest(&self) -> &str {
        self.pinned.digest().expect("it is pinned")
    }

    /// Signs the package as cosign does.
    async fn sign(&self, key: &EcdsaKeyPair) -> Result<()> {
        let document = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"{}"}},"image":{{"docker-manifest-digest":"{}"}},"type":"cosign container image signature"}},"optional":null}}"#,
            self.registry.address(),
            self.digest()
        );
        let signature = key
            .sign(&SystemRandom::new(), document.as_bytes())
            .expect("it signs");
        let annotations =
            BTreeMap::from([(SIGNATURE_ANNOTATION.to_owned(), STANDARD.encode(signature))]);
        let layers = [ImageLayer::new(
            document,
            SIGNATURE_MEDIA_TYPE.into(),
            Some(annotations),
        )];
        let config = Config::new(
            "{}",
            "application/vnd.oci.image.config.v1+json".into(),
            None,
        );
        self.push_raw(&signature_tag(self.digest()), &layers, config)
            .await
    }

    async fn push_raw(&self, tag: &str, layers: &[ImageLayer], config: Config) -> Result<()> {
        let config_of_client = ClientConfig {
            protocol: ClientProtocol::Http,
            ..ClientConfig::default()
        };
        let client = Client::try_from(config_of_client)?;
        let at = Reference::with_tag(
            self.registry.address().into(),
            "team/greeter".into(),
            tag.into(),
        );
        let manifest = OciImageManifest::build(layers, &config, None);
        client
            .push(
                &at,
                layers,
                config,
                &RegistryAuth::Anonymous,
                Some(manifest),
            )
            .await?;
        Ok(())
    }
}

fn key() -> (EcdsaKeyPair, PublicKey) {
    let random = SystemRandom::new();
    let pkcs8 =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random)
        .expect("a key");
    // The DER encoding of such a key up to its point.
    let head = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=";
    let der = [
        STANDARD.decode(head).expect("base64"),
        pair.public_key().as_ref().to_vec(),
    ]
    .concat();
    let public =
        PublicKey::from_pem(&pem::encode(&pem::Pem::new("PUBLIC KEY", der))).expect("a key");
    (pair, public)
}

async fn pulled(from: &PackageReference) -> Result<Pulled, RegistryError> {
    pull(from, None, &Options::default()).await
}

#[tokio::test]
async fn a_pushed_package_is_pulled_by_its_tag_and_by_its_digest() -> Result<()> {
    let test = TestRegistry::start().await?;
    for from in [&test.tagged, &test.pinned] {
        let pulled = pulled(from).await?;
        assert_eq!(
            (pulled.wasm.as_ref(), pulled.digest.as_str(), pulled.path),
            (WASM, test.digest(), None)
        );
    }
    // The same package has the same digest; another one under the tag leaves the pinned one where it is.
    assert_eq!(
        push(&test.tagged, package(WASM), &Options::default()).await?,
        test.pinned
    );
    let other = push(
        &test.tagged,
        package(b"\0asm\x0d\0\x01\0 another"),
        &Options::default(),
    )
    .await?;
    assert_ne!(other, test.pinned);
    assert_eq!(
        pulled(&test.tagged).await?.digest,
        other.digest().expect("pinned")
    );
    assert_eq!(pulled(&test.pinned).await?.wasm, WASM);
    Ok(())
}

#[tokio::test]
async fn a_missing_package_is_an_error_without_retry() -> Result<()> {
    let test = TestRegistry::start().await?;
    let missing = |name: &str| {
        format!("oci://{}/{name}", test.registry.address()).parse::<PackageReference>()
    };
    for from in [
        missing("team/greeter:2.0")?,
        missing("team/none:1")?,
        test.pinned.pinned(&format!("sha256:{}", "0".repeat(64))),
    ] {
        let error = pulled(&from).await.expect_err("it is not there");
        assert!(
            matches!(error, RegistryError::NotFound(_)) && !error.can_retry(),
            "{error:?}"
        );
    }
    let gone: PackageReference = "oci://127.0.0.1:1/team/greeter:1".parse()?;
    let error = pulled(&gone).await.expect_err("nobody listens");
    assert!(error.can_retry(), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_changed_layer_or_manifest_is_refused() -> Result<()> {
    let test = TestRegistry::start().await?;
    let layer = format!("sha256:{}", sha256(WASM));
    let mut changed = WASM.to_vec();
    *changed.last_mut().expect("not empty") ^= 1;
    for tampered in [changed, [WASM, b"more"].concat(), WASM[..10].to_vec()] {
        std::fs::write(test.registry.blob(&layer), tampered)?;
        for from in [&test.tagged, &test.pinned] {
            let error = pulled(from).await.expect_err("the layer was changed");
            let is_layer = matches!(&error, RegistryError::Digest { what: "layer", expected, .. } if *expected == layer);
            // A body that is too short may also end the connection early.
            assert!(is_layer || error.can_retry(), "{error:?}");
        }
    }
    std::fs::write(test.registry.blob(&layer), WASM)?;
    let manifest = test.registry.blob(test.digest());
    let text = std::fs::read_to_string(&manifest)?;
    std::fs::write(&manifest, text.replace("1.0.0", "9.9.9"))?;
    let error = pulled(&test.pinned)
        .await
        .expect_err("the manifest was changed");
    assert!(
        matches!(
            error,
            RegistryError::Digest {
                what: "manifest",
                ..
            }
        ),
        "{error:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_required_signature_must_exist_and_be_by_the_key() -> Result<()> {
    let test = TestRegistry::start().await?;
    let ((wrong_pair, wrong_key), (pair, key)) = (self::key(), self::key());
    let demand = async |key: &PublicKey| pull(&test.pinned, Some(key), &Options::default()).await;
    let error = demand(&key).await.expect_err("it is not signed");
    assert!(matches!(error, RegistryError::Unsigned { .. }), "{error:?}");
    test.sign(&wrong_pair).await?;
    let error = demand(&key).await.expect_err("it is signed by another key");
    assert!(
        matches!(error, RegistryError::WrongSignature { .. }),
        "{error:?}"
    );
    test.sign(&pair).await?;
    assert_eq!(demand(&key).await?.wasm, WASM);
    let error = demand(&wrong_key)
        .await
        .expect_err("it is signed by the right key");
    assert!(
        matches!(error, RegistryError::WrongSignature { .. }),
        "{error:?}"
    );
    // By its tag, the package that the tag refers to must be signed.
    assert_eq!(
        pull(&test.tagged, Some(&key), &Options::default())
            .await?
            .wasm,
        WASM
    );
    push(
        &test.tagged,
        package(b"\0asm\x0d\0\x01\0 another"),
        &Options::default(),
    )
    .await?;
    let error = pull(&test.tagged, Some(&key), &Options::default())
        .await
        .expect_err("the other one is not signed");
    assert!(matches!(error, RegistryError::Unsigned { .. }), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_pinned_package_needs_no_registry_the_second_time() -> Result<()> {
    let test = TestRegistry::start().await?;
    let (pair, key) = self::key();
    test.sign(&pair).await?;
    let folder = tempfile::tempdir()?;
    let options = Options {
        cache: Some(folder.path().into()),
        ..Options::default()
    };
    let first = pull(&test.pinned, Some(&key), &options).await?;
    let path = first.path.clone().expect("it is kept");
    assert_eq!(std::fs::read(&path)?, WASM);
    let (pinned, tagged) = (test.pinned.clone(), test.tagged.clone());
    drop(test);
    assert_eq!(pull(&pinned, Some(&key), &options).await?, first);
    // A tag may have been moved, another key has not signed, and a changed blob is not used.
    let (_, other) = self::key();
    for failed in [
        pull(&tagged, Some(&key), &options).await,
        pull(&pinned, Some(&other), &options).await,
    ] {
        assert!(failed.expect_err("the registry is gone").can_retry());
    }
    std::fs::write(&path, b"changed")?;
    assert!(
        pull(&pinned, Some(&key), &options)
            .await
            .expect_err("the registry is gone")
            .can_retry()
    );
    Ok(())
}

#[tokio::test]
async fn a_package_that_is_not_a_plugins_is_refused() -> Result<()> {
    let test = TestRegistry::start().await?;
    let layer = |media_type: &str| ImageLayer::new(WASM, media_type.to_owned(), None);
    let (wasm, image) = (
        layer("application/wasm"),
        layer("application/vnd.oci.image.layer.v1.tar"),
    );
    for (tag, layers, problem) in [
        ("image", vec![image], "is of type"),
        ("two", vec![wasm.clone(), wasm], "2 layers"),
    ] {
        let config = Config::new(
            "{}",
            "application/vnd.oci.image.config.v1+json".into(),
            None,
        );
        test.push_raw(tag, &layers, config).await?;
        let from: PackageReference =
            format!("oci://{}/team/greeter:{tag}", test.registry.address()).parse()?;
        let error = pulled(&from).await.expect_err("it isn't a plugin's");
        assert!(error.to_string().contains(problem), "{error}");
    }
    let error = push(&test.pinned, package(WASM), &Options::default())
        .await
        .expect_err("a push to a digest fails");
    assert!(matches!(error, RegistryError::Address { .. }), "{error:?}");
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
