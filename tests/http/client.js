// Sends a file with tus-js-client: node client.js MODULES ENDPOINT TOKEN QUEUE FILE STOP_AT
// It stops after so many bytes, as a program that is interrupted does, and then goes on anew.
const [modules, endpoint, token, queue, path, stopAt] = process.argv.slice(2);
const tus = require(`${modules}/tus-js-client`);
const fs = require("fs");

function upload(uploadUrl, stop) {
  return new Promise((resolve, reject) => {
    const sending = new tus.Upload(fs.createReadStream(path), {
      endpoint,
      uploadUrl,
      uploadSize: fs.statSync(path).size,
      chunkSize: 300000,
      headers: { Authorization: `Bearer ${token}` },
      metadata: { queue, filename: "from node" },
      retryDelays: null,
      onError: reject,
      onChunkComplete: (_, done) => {
        if (stop && done >= stop) sending.abort().then(() => resolve(sending.url), reject);
      },
      onSuccess: () => resolve(sending.url),
    });
    sending.start();
  });
}

upload(null, Number(stopAt))
  .then((url) => upload(url, 0))
  .then((url) => console.log(url))
  .catch((error) => {
    console.error(String(error));
    process.exit(1);
  });
