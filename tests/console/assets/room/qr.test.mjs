import assert from "node:assert/strict";
import { test } from "node:test";

import { qrCode } from "../../../../src/lingua_scheduler/console/assets/room/qr.js";

// Versions 1 to 6 as the Python package qrcode 8 draws them with the same mask: rows from the top, four modules a digit.
const KNOWN = [
  [
    "https://ta",
    "fe93fc17d06e94bb7555dba02ec12107faafe01800b7625ecd7fe8a317cbd2acbb6c804343fb121057bdba70a5d428aeb549" +
      "04b71fefce0",
  ],
  [
    "https://talk.ex",
    "fed9bfc10b506eb6ebb74245dba5f2ec164907faaafe008700a34692e26f1af8da7fa8028a83bbc20aa44d8f1fbc1a22b538" +
      "ffa7f90063447fac2a304cb13ba5df85d14652eab977047570fe87848",
  ],
  [
    "https://talk.example.org/room#483920/abc",
    "fe741bfc13bb506ebacebb75dfa5dbae03aec178a107faaaafe0164300be67f3e72c03b451b572c0a1421ca5306c064eb40f" +
      "c7eab7839ba4452262b9d0674463dd6fcfd1e92aca0929e82cfb807c3c7ff9c56b905e7312baf9cfbdd4f383eea567fd0444" +
      "19afe9771e0",
  ],
  [
    "https://talk.example.org/room#483920/abcdefghijklmnopqrstuvw",
    "fe4c393fc137d2506ea96f4bb75e4b75dbab95d2ec142e7107faaaaafe01b53e00be0d52be06d949dbcbb26b02998351f5f8" +
      "320c3dc007f4c90db8f5939d61ad7ae4b70952dc9c7a5cbbd7c778268309158fc17e8d3dcce314e9161d67312511af1c14bf" +
      "e572fd807c5c45ff8dd86a905d80f1cba81c2fd5d536ce5eeacd1ac9049f1c94fea9db910",
  ],
  [
    "https://talk.example.org/room#483920/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ",
    "fe8bb343fc15edb7506eb7a71cbb74eee995dbac71eaaec13844b507faaaaaafe005a56c009f8b14a4ba6225128c9bbb6a44" +
      "93b271d54ff1a4da1924e2d1e4ac61aae742d3e6114170ae0af35fda2ead62798809c73c7daac8c757ec92fece83fc1c399d" +
      "b850583facdd3a3c7d02fe7a3d5c830de932a0e5319dd41f572aa53176db71713dff8046bb245bfa27dfaa305be12913bad1" +
      "b5bf9dd44130b0ee9799e72b040a816dffec48aab48",
  ],
  [
    "https://talk.example.org/room#483920/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789a",
    "fe9af3703fc14b5c23906eb6e334cbb74937bde5dba9cd00daec12444d2107faaaaaaafe005121a5009feb61bdcbc4ea3b89" +
      "ace4d263658286acce32f184a3a990221f66b7afba4edbeb0bdfabba6b2535bfcfc8de954118018583e43cde45f5f73cb43e" +
      "5a717c3ed079efa0e03b9a8ed2c8f43cd83140c39038193f218318a2b659a2bb7d95cd169d6b28ad32432bfb7eb92490578d" +
      "5e34f7fb3d01cc7f0be0a476e35cca9f14f8ff8069c311c53fb7bad5eb1056e9c3b18babeedbbf9dd5822ae096e88b634173" +
      "0445f6165dfeeb9bd0ae0",
  ],
];

/** @param {number[][] | null} rows */
function hex(rows) {
  const bits = (rows ?? []).flat().join("");
  return (bits.match(/.{1,4}/g) ?? []).map((four) => parseInt(four.padEnd(4, "0"), 2).toString(16)).join("");
}

test("codes of every version are drawn as another encoder draws them", () => {
  for (const [text, expected] of KNOWN) assert.equal(hex(qrCode(text)), expected, text);
});

test("the smallest version that holds the text is chosen, and none for what is too long", () => {
  const sizes = [14, 15, 26, 27, 42, 43, 62, 63, 84, 85, 106].map((length) => qrCode("x".repeat(length))?.length);
  assert.deepEqual(sizes, [21, 25, 25, 29, 29, 33, 33, 37, 37, 41, 41]);
  assert.equal(qrCode("x".repeat(107)), null);
});

test("a text is counted in bytes, not in letters", () => {
  assert.equal(qrCode("房间房间")?.length, 21);
  assert.equal(qrCode("房间房间房")?.length, 25);
});
