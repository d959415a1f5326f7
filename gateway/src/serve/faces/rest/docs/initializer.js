window.onload = () => {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    displayRequestDuration: true,
    layout: "StandaloneLayout",
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    tryItOutEnabled: true,
  });
};
