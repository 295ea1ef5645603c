//! `reader` and `discovery`: reads that ask the API server. The guest's thread serves others meanwhile.

use super::{State, owned};
use crate::bindings::flyball::controller::{discovery, reader};

impl reader::Host for State {
    async fn get(
        &mut self,
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    ) -> wasmtime::Result<Result<Vec<u8>, reader::Error>> {
        let imports = self.imports()?.clone();
        let answer = imports.live_get(&kind, &namespace, &name, &fields).await;
        Ok(self.answer(answer.map(owned)))
    }

    async fn list(
        &mut self,
        kind: String,
        namespace: String,
        parameters: Vec<(String, String)>,
        fields: Vec<String>,
    ) -> wasmtime::Result<Result<Vec<u8>, reader::Error>> {
        let imports = self.imports()?.clone();
        let answer = imports
            .live_list(&kind, &namespace, &parameters, &fields)
            .await;
        Ok(self.answer(answer.map(owned)))
    }

    async fn raw(&mut self, path: String) -> wasmtime::Result<Result<Vec<u8>, reader::Error>> {
        let imports = self.imports()?.clone();
        let answer = imports.raw(&path).await;
        Ok(self.answer(answer.map(owned)))
    }
}

impl discovery::Host for State {
    async fn kinds(&mut self) -> wasmtime::Result<Result<Vec<u8>, discovery::Error>> {
        let imports = self.imports()?.clone();
        let answer = imports.discover().await;
        Ok(self.answer(answer.map(owned)))
    }
}
