//! Names of secrets that are written with letters beyond ASCII.

use crate::endings::Endings;

static NAMES: Endings<27> = Endings::new([
    "密码",
    "密碼",
    "口令",
    "密钥",
    "密鑰",
    "秘钥",
    "秘鑰",
    "令牌",
    "私钥",
    "私鑰",
    "凭证",
    "凭据",
    "パスワード",
    "暗証番号",
    "秘密鍵",
    "トークン",
    "비밀번호",
    "암호",
    "토큰",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "токен",
    "Токен",
    "contraseña",
    "Contraseña",
    "κωδικός",
]);

/// Whether a text ends with the name of a secret.
pub(crate) fn names_secret(text: &[u8]) -> bool {
    NAMES.of(text).is_some()
}
