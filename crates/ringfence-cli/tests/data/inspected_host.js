// A host that speaks HTTP/1.1 and HTTP/2, writes down what it hears, and gives away all that it is told.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http2 = require('node:http2');
const path = require('node:path');
const zlib = require('node:zlib');

const directory = process.argv[2];
const read = (name) => fs.readFileSync(path.join(directory, name));
const heard = (...words) => fs.appendFileSync(path.join(directory, 'heard'), words.join(' | ') + '\n');
const named = (request) => request.headers[':authority'] || request.headers.host;

const server = http2.createSecureServer({ key: read('key.pem'), cert: read('cert.pem'), allowHTTP1: true });
server.on('request', (request, response) => {
  const told = request.headers.authorization || '';
  const url = new URL(request.url, 'https://x');
  heard(request.httpVersion, request.method, named(request), request.url, told, request.headers['x-key'] || '');
  if (url.pathname.startsWith('/git/')) return git(request, response, url);
  let size = 0;
  request.on('data', (part) => (size += part.length));
  request.on('end', () => answer(request, response, url.pathname.split('/').pop(), told, size));
});

function answer(request, response, kind, told, size) {
  const secret = told.split(' ').pop();
  switch (kind) {
    case 'redirect':
      response.writeHead(302, { location: `https://b.test:${server.address().port}/caught?k=${encodeURIComponent(told)}` });
      return response.end();
    case 'reason':
      return response.writeHead(200, secret).end('reason\n');
    case 'name':
      return response.writeHead(200, { ['x-' + secret]: 'x', 'x-value': told }).end('name\n');
    case 'slowly': {
      const bytes = [...`{"told": ${JSON.stringify(told)}}\n`];
      const next = () => (bytes.length ? (response.write(bytes.shift()), setImmediate(next)) : response.end());
      return next();
    }
    case 'compressed':
      return response.writeHead(200, { 'content-encoding': 'gzip' }).end(zlib.gzipSync(told));
    case 'part': {
      const range = /bytes=(\d+)-(\d+)/.exec(request.headers.range || '');
      if (!range) return response.end(secret + '\n');
      return response.writeHead(206).end(secret.slice(Number(range[1]), Number(range[2]) + 1));
    }
    case 'trailers':
      response.writeHead(200, { 'content-type': 'application/grpc', trailer: 'grpc-status, x-told' });
      response.write('body\n');
      response.addTrailers({ 'grpc-status': '0', 'x-told': told });
      return response.end();
    default:
      return response.end(JSON.stringify({ version: request.httpVersion, method: request.method, size, told }) + '\n');
  }
}

function git(request, response, url) {
  const env = {
    ...process.env,
    GIT_PROJECT_ROOT: directory,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: url.pathname,
    QUERY_STRING: url.search.slice(1),
    REQUEST_METHOD: request.method,
    CONTENT_TYPE: request.headers['content-type'] || '',
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'] || '',
    GIT_PROTOCOL: request.headers['git-protocol'] || '',
    REMOTE_USER: 'anybody',
  };
  const child = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  request.pipe(child.stdin);
  const parts = [];
  child.stdout.on('data', (part) => parts.push(part));
  child.stdout.on('end', () => {
    const all = Buffer.concat(parts);
    const end = all.indexOf('\r\n\r\n');
    let status = 200;
    for (const line of all.subarray(0, end).toString().split('\r\n')) {
      const [name, value] = line.split(': ');
      if (name === 'Status') status = parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.writeHead(status);
    response.end(all.subarray(end + 4));
  });
}

server.on('upgrade', (request, socket) => {
  heard('upgrade', request.headers.upgrade, named(request), request.url, request.headers.authorization || '');
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  socket.on('error', () => {});
  socket.pipe(socket);
});
server.on('sessionError', () => {});
server.on('clientError', (error, socket) => socket.destroy());
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
