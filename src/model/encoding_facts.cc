#include "src/model/encoding_facts.h"

#include "gnomon/error.h"

namespace gnomon::model::internal {
namespace {

// In the order of the list.
constexpr EncodingFacts all_facts[] = {
    {"none", "score(i, j) = scale q_i . k_j",
     "Llama 4, SmolLM3, Cohere 2, EXAONE 4 (some layers, between rotary layers)"},
    {"sinusoidal",
     "f_i = base^(-2i/C)\n"
     "sin t f0, cos t f0, sin t f1, cos t f1, ...",
     "VideoMAE, SpeechT5; in other recipes Marian, Pegasus, Informer, Autoformer, M2M100, "
     "NLLB, "
     "XGLM, Whisper's encoder"},
    {"learned", "x[b, t] += table[position + offset]",
     "GPT, GPT-2, BERT, ALBERT, ELECTRA, ViT, CLIP; with an offset OPT, BART, RoBERTa, XLM-R, "
     "Longformer"},
    {"axial", "[ table_0[p / b] | table_1[p % b] ]", "Reformer"},
    {"axial-summed", "table_0[p / b] + table_1[p % b]", ""},
    {"fourier",
     "p | sin pi p_a f_i | cos pi p_a f_i\n"
     "f = n numbers at equal steps from 1 to resolution_a / 2",
     "Perceiver, Perceiver IO"},
    {"nerf", "p | sin p, cos p, sin 2p, cos 2p, ...", "NeRF"},
    {"fourier-gaussian",
     "sin 2 pi B p | cos 2 pi B p\n"
     "B [n, A] of normal numbers, fixed",
     "SAM (its point prompts)"},
    {"fourier-learned",
     "r = D^(-1/2) [ cos W_r x | sin W_r x ]\n"
     "P(x) = gelu(r W_1 + b_1) W_2 + b_2",
     ""},
    {"detr",
     "y(i, j) = real pixels in column j down to row i\n"
     "x(i, j) = real pixels in row i up to column j\n"
     "2 pi y / (y_last + 1e-6)\n"
     "P = [ interleaved sinusoid of y, C/2 | interleaved sinusoid of x, C/2 ]",
     "DETR, Conditional DETR, MaskFormer, Mask2Former; with another scale Deformable DETR, "
     "DINO"},
    {"sinusoidal-grid", "[ sinusoid of axis a | sinusoid of axis b | ... ]",
     "MAE, DiT, PixArt, SD3"},
    {"video",
     "position p: frame p / (h w), row p / w % h, column p % w\n"
     "[ frame C/4 | column 3C/8 | row 3C/8 ]",
     "CogVideoX-2B"},
    {"cross-modal",
     "row of a text token: sinusoid(index) + types[0]\n"
     "row of a patch: sinusoids(y, x) + types[type of its image]",
     "ViLT (its positions are trained, too)"},
    {"laplacian",
     "L = D - A\n"
     "L v_k = lambda_k v_k",
     "SAN, GraphGPS, TokenGT"},
    {"random-walk", "feature(i, k) = (P^k)(i, i), P = D^-1 A, k = 1 to K",
     "LSPE, GraphGPS, GRIT"},
    {"degree", "x[n] += in[in-degree of n + 1] + out[out-degree of n + 1]", "Graphormer"},
    {"rotary",
     "a' = a cos(p f_i) - b sin(p f_i)\n"
     "b' = a sin(p f_i) + b cos(p f_i)\n"
     "f_i = base^(-2i/R)",
     "Llama, Mistral, Qwen, Gemma, GPT-NeoX, Falcon, Phi, DeepSeek"},
    {"rotary-scaled",
     "f'_i = ramp_i f_i / factor + (1 - ramp_i) f_i\n"
     "cos and sin are multiplied by 0.1 ln(factor) + 1",
     "Qwen2.5, DeepSeek, gpt-oss"},
    {"rotary-axial", "pair i is rotated by p[axis(i)] f_i",
     "Pixtral, Qwen-VL, Llama 4, DINOv3, SAM 2, Gemma 4 (their vision parts, with other "
     "splits)"},
    {"mrope", "pair i is rotated by p[axis(i)] base^(-2i/R) radians",
     "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3-Omni, GLM-4.1V, ERNIE 4.5 VL"},
    {"vjepa2",
     "a' = a cos(p f_(2i mod P)) - b sin(p f_(2i mod P))\n"
     "b' = b cos(p f_((2i+1) mod P)) + a sin(p f_((2i+1) mod P))",
     "V-JEPA 2"},
    {"xpos",
     "query pair i at m: rotated, times zeta_i^((m - centre) / scale_base)\n"
     "key pair i at n: rotated, times zeta_i^((centre - n) / scale_base)\n"
     "zeta_i = (2i/R + 0.4) / 1.4",
     "TorchScale's LEX"},
    {"alibi", "score(h, query, key) += -slope[h] |key - query|",
     "BLOOM, MPT, Falcon-RW, Baichuan-13B, JinaBERT"},
    {"t5", "score(h, query, key) += table[bucket(key - query), h]",
     "T5, mT5, UMT5, Switch, LongT5, Pop2Piano, UDOP, MPNet, ProphetNet, CPM-Ant"},
    {"clipped", "score(h, i, j) += b[h, clip(i - j, -right, left)]", ""},
    {"kerple",
     "score(h, i, j) += -r1[h] ln(1 + r2[h] |i - j|)\n"
     "r1, r2 > 0",
     ""},
    {"kerple-power",
     "score(h, i, j) += -r1[h] |i - j|^r2[h]\n"
     "r1 > 0, 0 < r2 <= 2",
     ""},
    {"sandwich",
     "score(h, i, j) += (s(i - j) - s(0)) / ratio[h]\n"
     "s(d) = sum over i = 1 to 64 of cos(d / 10000^(i / 64)),\n"
     "ratio[h] = 8 (h + 1) / H",
     ""},
    {"dynamic",
     "score(h, i, j) += f_h(x),\n"
     "x = i - j\n"
     "f: Linear(1, U), SiLU, (Linear(U, U), SiLU) depth - 1 times, Linear(U, H)",
     ""},
    {"dynamic-log",
     "score(h, i, j) += f_h(x)\n"
     "x = sign(i - j) ln(1 + |i - j|)\n"
     "f: Linear(1, U), SiLU, (Linear(U, U), SiLU) depth - 1 times, Linear(U, H)",
     ""},
    {"fire",
     "bias(h, i, j) = f_h( psi(|i - j|) / psi(max(L, i)) ),\n"
     "psi(n) = log(c n + 1)",
     ""},
    {"swin",
     "score(h, query, key) += table[index(query - key), h]\n"
     "index = (dy + height - 1) (2 width - 1) + dx + width - 1",
     "Swin Transformer, MaskFormer"},
    {"beit",
     "score(h, query, key) += table[index(query - key), h]\n"
     "N - 3 from the class token to a cell, N - 2 from a cell to it, N - 1 to itself",
     "BEiT, Data2Vec Vision"},
    {"swin-v2",
     "score(h, q, k) = exp(min(logit_scale[h], ln 100)) cos(q, k) + 16 sigmoid( w2[h] . max(0, "
     "w1 (t(dy), t(dx)) + b1) )\n"
     "t = sign(x) log2(1 + |x|) / log2(8),\n"
     "x = 8 delta / (window - 1)",
     "Swin Transformer V2"},
    {"wavlm",
     "score(h, i, j) += gate(h, i) b[h, bucket(j - i)]\n"
     "gate = g_a (g_b constant[h] - 1) + 2",
     "WavLM"},
    {"layout",
     "score(h, i, j) += scale ( text[bucket(j - i), h] + x[bucket(x_j - x_i), h] + "
     "y[bucket(y_j - y_i), h] )",
     "LayoutLMv2, LayoutLMv3"},
    {"graphormer",
     "score(h, i, j) += spatial[d(i, j) + 1, h] + 1/n sum over k < n, g of x_k[g] hops[k, g, "
     "h]",
     "Graphormer"},
    {"shaw",
     "score(i, j) = scale (q_i . k_j + q_i . K[row])\n"
     "out(i) = sum_j weight(i, j) (v_j + V[row]),\n"
     "row = clip(j - i, -left, right) + left",
     "Tensor2Tensor"},
    {"relative-key",
     "score(i, j) = scale (q_i . k_j + q_i . K[row])\n"
     "row = i - j + max - 1",
     "BERT (with relative_key)"},
    {"relative-key-query",
     "score(i, j) = scale (q_i . k_j + q_i . K[row] + k_j . K[row])\n"
     "row = i - j + max - 1",
     "BERT (with relative_key_query)"},
    {"wav2vec2-bert",
     "score(i, j) = scale (q_i . k_j + q_i . K[row])\n"
     "row = clip(j - i, -64, 8) + 64",
     "wav2vec2-BERT, Seamless M4T v2"},
    {"transformer-xl",
     "score[h, i, j] = scale ( (q_i + u_h) . k_j + (q_i + v_h) . W_h r(i - j) )",
     "Transformer-XL, XLNet"},
    {"conformer", "score[h, i, j] = scale ( (q_i + u_h) . k_j + (q_i + v_h) . W_h r(i - j) )",
     "wav2vec2-conformer, Parakeet, FastSpeech 2"},
    {"deberta",
     "score[h, i, j] = scale ( q_i . k_j + q_i . K_h[row] + k_j . Q_h[row] ),\n"
     "K = W_k x,  Q "
     "= "
     "W_q x\n"
     "row = clip(f(i - j) + span, 0, 2 span - 1)",
     "DeBERTa"},
    {"deberta-v3",
     "score[h, i, j] = scale ( q_i . k_j + q_i . K_h[row] + k_j . Q_h[row] ),\n"
     "K = W_k x,  Q "
     "= "
     "W_q x\n"
     "row = clip(f(i - j) + span, 0, 2 span - 1)\n"
     "f(r) = sign(r) ( ceil( ln(|r| / mid) / ln((m - 1) / mid) * (mid - 1) ) + mid )",
     "DeBERTa (v2 and v3), mDeBERTa"},
    {"decomposed",
     "score(i, j) = scale q_i . k_j + q_i . R_height[y_i - y_j + h - 1] + q_i . R_width[x_i - "
     "x_j "
     "+ w - 1]",
     "MViTv2, SAM"},
};

}  // namespace

const EncodingFacts& facts(const EncodingInfo& info) {
  for (const EncodingFacts& one : all_facts)
    if (one.name == info.name) return one;
  refuse("encoding", "each name must have a row in src/model/encoding_facts.cc", info.name);
}

}  // namespace gnomon::model::internal
